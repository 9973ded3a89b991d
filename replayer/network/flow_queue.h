// Flows in flight: how many bytes each has left, and which ends next.
//
// Rates are max-min fair (replayer/network/max_min.h) and constant between two changes, so that a
// flow's end follows from its rate and moves only when the rate does. Ends are whole nanoseconds,
// rounded up: flows that are alike end together whatever the last bit of their rates, and a flow
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

  // A flow from `now` on, which is at or after every earlier call's. Rates follow in Settle.
  FlowId Begin(const FlowRequest& request, TimeNs now);

  // Makes rates fair after flows have begun or ended at `now`.
  void Settle(TimeNs now);

  // When the next flow ends; kNever where none is in flight.
  [[nodiscard]] TimeNs NextEnd() const { return heap_.empty() ? kNever : end_[heap_.front()]; }

  // Ends all flows that end at NextEnd and adds their owners to `owners`, in the order of flow ids.
  void EndNext(std::vector<uint32_t>* owners);

  [[nodiscard]] const MaxMinSolver& solver() const { return solver_; }
  [[nodiscard]] size_t in_flight() const { return heap_.size(); }
  [[nodiscard]] int64_t ended() const { return ended_; }

 private:
  void Reschedule(FlowId flow, TimeNs now);
  [[nodiscard]] bool Before(FlowId a, FlowId b) const {
    return end_[a] < end_[b] || (end_[a] == end_[b] && a < b);
  }
  void Place(size_t at, FlowId flow);
  void SiftUp(size_t at);
  void SiftDown(size_t at);
  void Erase(FlowId flow);

  MaxMinSolver solver_;
  int64_t ended_ = 0;
  std::vector<double> bytes_;    // by flow: left at since_
  std::vector<double> rate_;     // by flow: since then
  std::vector<TimeNs> since_;    // by flow
  std::vector<TimeNs> end_;      // by flow
  std::vector<uint32_t> owner_;  // by flow
  std::vector<uint32_t> place_;  // by flow: in heap_
  std::vector<FlowId> heap_;     // by end, then id
  std::vector<FlowId> ending_;   // storage
};

}  // namespace prism::replayer
