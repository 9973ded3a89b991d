#include "slicer/record/late_waits.h"

#include <algorithm>

namespace prism::slicer {

bool LateWaits::Learn(const Transfers& over, Transfers* known) {
  bool is_new = false;
  for (const auto& [stream, count] : over) {
    int64_t& own = (*known)[stream];
    is_new = is_new || count > own;
    own = std::max(own, count);
  }
  return is_new;
}

void LateWaits::Record(uint32_t event, uint16_t stream, int32_t iteration) {
  events_[event] = {stream, iteration, streams_[stream]};
}

bool LateWaits::Wait(std::optional<uint16_t> waiter, uint32_t event, int32_t iteration) {
  const auto found = events_.find(event);
  if (found == events_.end() || waiter == found->second.stream) {
    return false;
  }
  if (!waiter) {
    return Learn(found->second.over, &host_) && found->second.iteration < iteration;
  }
  // What the host has waited for is complete for everything issued now.
  Transfers& own = streams_[*waiter];
  Learn(host_, &own);
  return Learn(found->second.over, &own) && found->second.iteration < iteration;
}

void LateWaits::HostWaits(std::optional<uint16_t> stream) {
  for (const auto& [each, over] : streams_) {
    if (!stream || *stream == each) {
      Learn(over, &host_);
    }
  }
}

}  // namespace prism::slicer
