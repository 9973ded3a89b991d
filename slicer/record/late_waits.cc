#include "slicer/record/late_waits.h"

#include <algorithm>

namespace prism::slicer {

void LateWaits::Record(uint32_t event, uint16_t stream, int32_t iteration) {
  const auto transfers = transfers_.find(stream);
  events_[event] = {stream, iteration, transfers == transfers_.end() ? 0 : transfers->second};
}

bool LateWaits::Wait(std::optional<uint16_t> waiter, uint32_t event, int32_t iteration) {
  const auto found = events_.find(event);
  if (found == events_.end() || waiter == found->second.stream) {
    return false;
  }
  const auto [stream, recorded_in, transfers] = found->second;
  int64_t& by_host = host_waited_[stream];
  int64_t& waited = waiter ? waited_[{*waiter, stream}] : by_host;
  const bool is_new = transfers > std::max(waited, by_host);
  waited = std::max(waited, transfers);
  return is_new && recorded_in < iteration;
}

void LateWaits::HostWaits(std::optional<uint16_t> stream) {
  for (const auto& [each, count] : transfers_) {
    if (!stream || *stream == each) {
      host_waited_[each] = count;
    }
  }
}

}  // namespace prism::slicer
