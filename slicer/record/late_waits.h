// Waits for communication of an earlier iteration. An op's dependencies lie within its iteration
// (graph/program/op.h), so the replay treats such communication as complete. What the host waits
// for only to read a time (cudaEventElapsedTime follows) is not such a wait; the recorder leaves it
// out.
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

  // `waiter`, or the host if null, waits in `iteration` for the event, that is for its stream so
  // far and everything that stream has waited for. True if this includes communication of an
  // earlier iteration that neither the waiter nor the host had waited for.
  bool Wait(std::optional<uint16_t> waiter, uint32_t event, int32_t iteration);

  // The host waits for everything issued on the stream, or on all streams.
  void HostWaits(std::optional<uint16_t> stream);

 private:
  using Transfers = std::map<uint16_t, int64_t>;  // by stream: how many, counted from its first

  struct Event {
    uint16_t stream = 0;
    int32_t iteration = 0;
    Transfers over;  // with the event
  };

  // Whether `over` has more than `known`, which is updated with it.
  static bool Learn(const Transfers& over, Transfers* known);

  std::map<uint16_t, Transfers> streams_;  // by stream: what is complete by now
  std::map<uint32_t, Event> events_;
  Transfers host_;
};

}  // namespace prism::slicer
