// Between the holds of this process and its worker: what the GPU says goes out as kHold records,
// deadlines that the worker writes into the channel go to the GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shim/channel/messages.h"
#include "shim/device/hold_device.h"

namespace prism::shim {

class HoldService {
 public:
  using Emit = std::function<void(const channel::Record&)>;
  // Asked again and again of a hold that has begun, by lane and sequence: whether it may end, since
  // what it stands for is done.
  using MayEnd = std::function<bool(uint32_t, uint64_t)>;

  // All outlive the service.
  HoldService(HoldDevice* device, const channel::Header* header, Emit emit, MayEnd may_end)
      : device_(device), header_(header), emit_(std::move(emit)), may_end_(std::move(may_end)) {}

  // Passes on what there is, in both directions. False: nothing. From one thread, all the time:
  // what it finds late ends late.
  bool Step();

 private:
  struct Waiting {
    uint32_t lane;
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
