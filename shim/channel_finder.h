// Which channel this process was given by its launcher.
#pragma once

#include "shim/channel/messages.h"

namespace prism::shim {

struct FoundChannel {
  channel::Header* header = nullptr;  // null: none was given
  const char* error = nullptr;        // one was, and cannot be used: why
};

// By the descriptor that PRISM_CHANNEL_FD names. A process whose descriptors are closed (Python's
// subprocess does so, and programs that make themselves daemons) finds it by PRISM_CHANNEL_PATH:
// through the worker, or where that has not said its own path through the process that had it.
FoundChannel FindChannel();

}  // namespace prism::shim
