// Waits for what an earlier iteration communicates. An op's dependency lies within its iteration
// (graph/op.h), so that the replay takes such communication as over. What the host waits for only
// to read a time (cudaEventElapsedTime follows) is no such wait; the recorder leaves it out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace prism::slicer {

class LateWaits {
 public:
  // A collective, or a group of messages, on `stream`.
  void Transfer(uint16_t stream) { ++streams_[stream][stream]; }

  void Record(uint32_t event, uint16_t stream, int32_t iteration);

  // `waiter`, the host where there is none, waits in `iteration` for the event, that is for its
  // stream so far and what that has waited for. True where that is communication of an earlier
  // iteration that neither it nor the host had waited for.
  bool Wait(std::optional<uint16_t> waiter, uint32_t event, int32_t iteration);

  // The host waits for all that was issued on the stream, or on each.
  void HostWaits(std::optional<uint16_t> stream);

 private:
  using Transfers = std::map<uint16_t, int64_t>;  // by stream: how many, from its first

  struct Event {
    uint16_t stream = 0;
    int32_t iteration = 0;
    Transfers over;  // with the event
  };

  // Whether `over` has more than `known`, which takes it over.
  static bool Learn(const Transfers& over, Transfers* known);

  std::map<uint16_t, Transfers> streams_;  // by stream: what is over when it has come so far
  std::map<uint32_t, Event> events_;
  Transfers host_;
};

}  // namespace prism::slicer
