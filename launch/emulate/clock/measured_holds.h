// The holds of one sandbox rank on a real GPU, on process 0's side: arrivals by the GPU's timer
// become virtual times for the engine, ends in virtual time become deadlines by the timer.
//
// The rank's first hold in the emulation sets the two clocks: it arrives when the graph says. From
// there on virtual time is the GPU's time multiplied by the scale. Where a hold ended later than it
// should have (the last arrival became known too late, or the GPU was busy) virtual time stopped in
// between, so that delays of the emulation do not delay what follows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "launch/emulate/clock/clock_map.h"
#include "launch/emulate/clock/emulation_messages.h"
#include "replayer/engine/engine.h"

namespace prism::launch {

// By how much holds ended later than requested.
struct HoldAccuracy {
  int64_t holds = 0;
  int64_t late = 0;  // by more than kLateNs
  DurationNs latest_ns = 0;

  void Add(const HoldAccuracy& other);
};

// The goal for the delay that a hold itself adds (p99); holds that ended later than that were
// released too late.
inline constexpr DurationNs kLateNs = 5'000;

class MeasuredHolds {
 public:
  MeasuredHolds(Rank rank, double scale) : rank_(rank), scale_(scale) {}

  // The stream has reached, or left, the op. Times by the GPU's timer.
  void Begin(replayer::OpPosition position, int64_t gpu_ns);
  void End(replayer::OpPosition position, int64_t gpu_ns);

  // Passes the arrivals that are ready to the engine. True when there was one.
  bool PassArrivals(replayer::Engine* engine);

  // Ends that have become known.
  void CollectEnds(const replayer::Engine& engine, std::vector<HoldEnd>* ends);

  [[nodiscard]] const HoldAccuracy& accuracy() const { return accuracy_; }

 private:
  struct Hold {
    int64_t begin_gpu_ns = 0;
    bool passed = false;           // the engine knows
    std::optional<TimeNs> end_ns;  // reported
    int64_t deadline_gpu_ns = 0;   // as reported
  };

  Rank rank_;
  double scale_;
  std::optional<ClockMap> clock_;
  std::map<replayer::OpPosition, Hold> open_;
  HoldAccuracy accuracy_;
};

}  // namespace prism::launch
