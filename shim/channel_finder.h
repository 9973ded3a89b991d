// Finds the channel that the launcher gave to this process.
#pragma once

#include "shim/channel/messages.h"

namespace prism::shim {

struct FoundChannel {
  channel::Header* header = nullptr;  // null: none was given
  const char* error = nullptr;        // why a given channel cannot be used
};

// By the descriptor in PRISM_CHANNEL_FD. A process whose descriptors were closed (by Python's
// subprocess, or when daemonising) finds it by PRISM_CHANNEL_PATH: through the worker, or, if the
// worker has given no path of its own, through the process that had it.
FoundChannel FindChannel();

}  // namespace prism::shim
