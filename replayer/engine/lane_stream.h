// One stream of a class: until when it is busy in each lane, and when it computed.
#pragma once

#include <vector>

#include "graph/base/time.h"
#include "replayer/engine/lane_activity.h"
#include "replayer/engine/partition.h"

namespace prism::replayer {

// When the lanes of a class issue an op: base[lane] + host_ns.
struct IssueTimes {
  const TimeNs* base = nullptr;
  DurationNs host_ns = 0;

  [[nodiscard]] TimeNs of(size_t lane) const { return base[lane] + host_ns; }
};

class LaneStream {
 public:
  // `activity` receives the ranges of compute; it must outlive the stream.
  explicit LaneStream(LaneActivity* activity) : activity_(activity), tail_(activity->lanes(), 0) {}

  // By lane: the end of everything that the stream has executed.
  [[nodiscard]] const std::vector<TimeNs>& tail() const { return tail_; }

  // From here on compute is reported to `activity`.
  void Collect();

  // Reports the compute that ends at the tail, too.
  void Flush();

  // Executes an op of `duration` in some lanes: from its issue or the tail, whichever is later.
  void Compute(const LaneGroup& lanes, const IssueTimes& issue, DurationNs duration);
  void Copy(const LaneGroup& lanes, const IssueTimes& issue, DurationNs duration);

  // Whether compute is reported and an op would find the stream idle in one of those lanes.
  [[nodiscard]] bool WouldTellGap(const LaneGroup& lanes, const IssueTimes& issue) const;

  // The stream does nothing until then, in all lanes.
  void WaitUntil(const IssueTimes& issue);
  void WaitUntil(const std::vector<TimeNs>& times) { WaitUntil({times.data(), 0}); }

  // Sets the tail of the only lane to `time`, earlier or later.
  void MoveTo(TimeNs time);

  // Continues computing for `duration`.
  void Prolong(const LaneGroup& lanes, DurationNs duration);

 private:
  void Pass(const LaneGroup& lanes, const IssueTimes& issue, DurationNs duration);

  LaneActivity* activity_;
  bool collects_ = false;
  bool computes_ = false;     // may have compute that is not reported yet
  std::vector<TimeNs> tail_;  // by lane
  // By lane, if reported: begin of the compute that ends at the tail.
  std::vector<TimeNs> busy_since_;
};

}  // namespace prism::replayer
