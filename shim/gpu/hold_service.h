// Connects the holds of this process with its worker: events from the GPU become kHold records, and
// deadlines that the worker writes into the channel go to the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shim/channel/messages.h"
#include "shim/gpu/hold_device.h"

namespace prism::shim {

class HoldService {
 public:
  using Emit = std::function<void(const channel::Record&)>;
  // Polled for a hold that has begun, by hold stream and sequence: whether it may end, because the
  // work that it waits for is done.
  using MayEnd = std::function<bool(uint32_t, uint64_t)>;

  // All outlive the service.
  HoldService(HoldDevice* device, const channel::Header* header, Emit emit, MayEnd may_end)
      : device_(device), header_(header), emit_(std::move(emit)), may_end_(std::move(may_end)) {}

  // Passes on what is available, in both directions. False: nothing. To be called continuously from
  // one thread: what it finds late ends late.
  bool Step();

 private:
  struct Waiting {
    uint32_t hold_stream;
    uint64_t sequence;
  };

  HoldDevice* device_;
  const channel::Header* header_;
  Emit emit_;
  MayEnd may_end_;
  std::vector<HoldEvent> events_;
  std::vector<Waiting> waiting_;
};

}  // namespace prism::shim
