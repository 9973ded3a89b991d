// Flows in flight: how many bytes each has left, and which ends next.
//
// Rates are max-min fair (replayer/network/max_min.h) and constant between two changes, so that a
// flow's end follows from its rate and moves only when the rate does. Ends are whole nanoseconds,
// rounded up: equal flows end together even if the last bits of their rates differ, and a flow
// holds its bandwidth until the nanosecond in which it ends.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "graph/base/time.h"
#include "replayer/network/max_min.h"

namespace prism::replayer {

inline constexpr TimeNs kNever = std::numeric_limits<TimeNs>::max();

struct FlowRequest {
  std::span<const LinkId> links;
  double bytes = 0;
  double bound = 0;    // byte/s, at most
  uint32_t owner = 0;  // the caller's; handed back when the flow ends
};

class FlowQueue {
 public:
  // Capacities in byte/s.
  explicit FlowQueue(std::vector<double> capacities);

  // Begins a flow at `now`, which must be at or after that of every earlier call. Settle computes
  // its rate.
  FlowId Begin(const FlowRequest& request, TimeNs now);

  // Makes rates fair after flows have begun or ended at `now`.
  void Settle(TimeNs now);

  // When the next flow ends; kNever if none is in flight.
  [[nodiscard]] TimeNs NextEnd() const { return heap_.empty() ? kNever : heap_.front().end; }

  // Ends all flows that end at NextEnd and adds their owners to `owners`, in the order of flow ids.
  void EndNext(std::vector<uint32_t>* owners);

  [[nodiscard]] const MaxMinSolver& solver() const { return solver_; }
  [[nodiscard]] int64_t ended() const { return ended_; }

 private:
  struct Flight {
    double bytes = 0;  // left at `since`
    double rate = 0;   // since then
    TimeNs since = 0;
    TimeNs end = kNever;
    uint32_t owner = 0;
    uint32_t place = 0;  // in heap_
  };

  // `end` is that of the flow or, except in the first entry, earlier: a flow that is slowed keeps
  // its position until it reaches the front.
  struct Entry {
    TimeNs end = kNever;
    FlowId flow = 0;
  };

  void Reschedule(FlowId flow, TimeNs now);
  void SettleFront();
  void Place(size_t at, const Entry& entry);
  void SiftUp(size_t at);
  void SiftDown(size_t at);
  void EraseFront();

  MaxMinSolver solver_;
  int64_t ended_ = 0;
  std::vector<Flight> flights_;  // by flow
  std::vector<Entry> heap_;      // by end
  std::vector<FlowId> ending_;   // storage
};

}  // namespace prism::replayer
