// A replay recorded in enough detail that another one can start from it anywhere: when every lane
// reached each meeting, and its state at checkpoints a few meetings apart.
//
// Memory: 8 bytes per lane and hold, and about 400 bytes per lane and checkpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "replayer/delta/lane_run.h"
#include "replayer/delta/schedule.h"

namespace prism::replayer {

// A cut of a class with the state of all its lanes there.
struct Checkpoint {
  uint32_t cut = 0;
  std::vector<TimeNs> registers;    // lane by lane
  std::vector<DurationNs> traffic;  // lane by lane: transfer_ns, then wait_ns
  std::vector<Breakdown> activity;  // by lane
};

struct ClassBaseline {
  std::vector<std::vector<DurationNs>> charges;  // by group of lanes
  TransferCosts transfers;
  std::vector<LaneCosts> costs;         // by lane
  std::vector<TimeNs> arrivals;         // hold by hold, by lane
  std::vector<Checkpoint> checkpoints;  // ascending; the first at the beginning
  std::vector<LaneTimes> ends;          // by lane: after the last action
};

struct BaselineSource {
  const Partition& partition;
  const RecordedOrder& job;  // of the partition
  const ReplayOptions& options;
  const CollectiveCost& cost;
  double overlap_slowdown = 1;
};

class Baseline {
 public:
  // Evaluates all lanes, with a checkpoint per class every N holds. Keeps references to what
  // `source` refers to.
  Baseline(const BaselineSource& source, uint32_t holds_per_checkpoint);
  Baseline(const Baseline&) = delete;
  Baseline& operator=(const Baseline&) = delete;

  [[nodiscard]] const ClassBaseline& of_class(uint32_t c) const { return classes_[c]; }
  [[nodiscard]] const LaneRun& run(uint32_t c) const { return runs_[c]; }

  [[nodiscard]] TimeNs Arrival(uint32_t c, uint32_t hold, uint32_t lane) const {
    return classes_[c].arrivals[size_t{hold} * lane_count(c) + lane];
  }

  [[nodiscard]] size_t lane_count(uint32_t c) const { return partition_.classes[c].lanes.size(); }

  // When the last member arrived at a collective, by instance of its communicator class.
  [[nodiscard]] TimeNs Latest(uint32_t meeting, uint32_t instance) const {
    return latest_[first_latest_[meeting] + instance];
  }

  // How long the transfer of a meeting takes.
  [[nodiscard]] DurationNs TransferNs(uint32_t meeting) const { return transfer_ns_[meeting]; }

  // When a transfer of a hold took place, for one of the lanes.
  [[nodiscard]] TimeRange TransferOf(uint32_t c, uint32_t transfer, uint32_t lane) const;

  // The state at a checkpoint; `ends` supplies the starts of earlier iterations.
  [[nodiscard]] LaneTimes Restore(uint32_t c, uint32_t checkpoint, uint32_t lane) const;

 private:
  void CostClasses(const BaselineSource& source);
  void CostMeetings();
  void RunTurn(const Turn& turn);
  void RunLane(uint32_t c, uint32_t begin, uint32_t end, uint32_t lane);
  void FinishHold(uint32_t c, uint32_t action, uint32_t lane);
  void KeepCheckpoint(uint32_t c, uint32_t cut);

  const Partition& partition_;
  const RecordedOrder& job_;
  const ReplayOptions& options_;
  uint32_t holds_per_checkpoint_ = 0;
  std::vector<LaneRun> runs_;  // by class
  std::vector<ClassBaseline> classes_;
  std::vector<size_t> first_latest_;  // by meeting
  std::vector<TimeNs> latest_;
  std::vector<DurationNs> transfer_ns_;      // by meeting
  std::vector<uint32_t> position_;           // by class: while evaluating, the next action
  std::vector<uint32_t> next_cut_;           // likewise
  std::vector<std::vector<LaneTimes>> now_;  // by class and lane: current state
};

// The range of a message for its receiver, or for a sender that waits.
TimeRange MessageRange(
    TransferSide side, bool eager, TimeNs sent, TimeNs received, DurationNs transfer_ns);

}  // namespace prism::replayer
