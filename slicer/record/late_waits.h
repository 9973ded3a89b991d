// Waits for what an earlier iteration communicates. An op's dependency lies within its iteration
// (graph/op.h), so that the replay takes such communication as over.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace prism::slicer {

class LateWaits {
 public:
  // A collective, or a group of messages, on `stream`.
  void Transfer(uint16_t stream) { ++transfers_[stream]; }

  void Record(uint32_t event, uint16_t stream, int32_t iteration);

  // `waiter`, the host where there is none, waits in `iteration` for the event, that is for its
  // stream so far. True where that is communication of an earlier iteration that neither it nor the
  // host had waited for.
  bool Wait(std::optional<uint16_t> waiter, uint32_t event, int32_t iteration);

  // The host waits for all that was issued on the stream, or on each.
  void HostWaits(std::optional<uint16_t> stream);

 private:
  struct Event {
    uint16_t stream = 0;
    int32_t iteration = 0;
    int64_t transfers = 0;  // on the stream in front of it
  };

  std::map<uint16_t, int64_t> transfers_;  // by stream, so far
  std::map<uint32_t, Event> events_;
  std::map<uint16_t, int64_t> host_waited_;                  // by stream: transfers
  std::map<std::pair<uint16_t, uint16_t>, int64_t> waited_;  // by waiter and stream
};

}  // namespace prism::slicer
