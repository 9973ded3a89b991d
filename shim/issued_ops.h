// Which ops a call of the program has issued, as the worker numbers them: its kernels, products,
// copies and memsets from 0, in the order of their records. Only if Config::measures_device is set.
#pragma once

#include <cstdint>

#include "shim/channel/messages.h"

namespace prism::shim {

// Of this thread, since they were last taken; or, of a stream under capture, which of the ops of
// each launch of its graph it will be.
struct IssuedOps {
  uint64_t first = 0;
  uint32_t count = 0;
  bool captured = false;  // `first` counts the graph's
  bool may_wait = false;  // the call is a copy or waits for the device
};
IssuedOps TakeIssuedOps();
void NoteCapturedOp(uint32_t number);

// Call for each record, in their order.
void NumberOp(const channel::Config& config, channel::RecordKind kind);

}  // namespace prism::shim
