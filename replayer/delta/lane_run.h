// Executes the schedule of a class for one lane.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "replayer/delta/schedule.h"
#include "replayer/engine/breakdown.h"
#include "replayer/engine/class_costs.h"

namespace prism::replayer {

// Another duration of one step of kind kWork.
struct StepPatch {
  uint16_t stream = 0;
  uint32_t step = 0;
  DurationNs duration_ns = 0;

  auto operator<=>(const StepPatch&) const = default;
};

// All durations of one lane.
struct LaneCosts {
  const RolePlan* plan = nullptr;
  const TransferCosts* transfers = nullptr;
  const std::vector<DurationNs>* charges = nullptr;
  std::vector<StepPatch> patches;  // ascending; they overrule the plan
  DurationNs delay_ns = 0;
  Rank rank;  // whose noise it has
};

// The state of a lane at some place of its schedule.
struct LaneTimes {
  static constexpr TimeNs kUnknown = -1;

  std::vector<TimeNs> registers;
  std::vector<TimeNs> busy_since;  // by stream: start of the compute that ends at its tail
  Breakdown activity;
  std::vector<TimeNs> starts;           // by iteration, and when one after the last would begin
  std::vector<DurationNs> transfer_ns;  // by communicator slot, in the last iteration
  std::vector<DurationNs> wait_ns;      // likewise
};

// When the transfers of a hold take place.
struct HoldTimes {
  TimeNs arrival = 0;
  TimeNs start = 0;  // latest
  TimeNs end = 0;    // latest
  std::vector<TimeRange> transfers;

  explicit HoldTimes(TimeNs arrived = 0) : arrival(arrived), start(arrived), end(arrived) {}

  void Add(TimeRange transfer) {
    start = std::max(start, transfer.begin);
    end = std::max(end, transfer.end);
    transfers.push_back(transfer);
  }
};

class LaneRun {
 public:
  // Keeps references to all of them. `costs` may differ by lane; the rest belongs to the class.
  LaneRun(const Partition& partition,
          const RecordedOrder& job,
          const ReplayOptions& options,
          uint32_t class_index);

  // At the beginning of the schedule.
  [[nodiscard]] LaneTimes Begin(const LaneCosts& costs) const;

  // Any action but kArrive and kFinish.
  void Execute(const ScheduledAction& scheduled, const LaneCosts& costs, LaneTimes* lane) const;

  // Returns when the stream reached its transfers.
  TimeNs Arrive(const ScheduledAction& scheduled, const LaneCosts& costs, LaneTimes* lane) const;
  void Finish(const ScheduledAction& scheduled,
              const HoldTimes& hold,
              const LaneCosts& costs,
              LaneTimes* lane) const;

  // At a cut: counts activity that nothing later can overlap with.
  void Count(const Cut& cut, LaneTimes* lane) const;

  // Behind the last action.
  void End(const LaneCosts& costs, LaneTimes* lane) const;

  [[nodiscard]] const ClassSchedule& schedule() const { return schedule_; }

 private:
  [[nodiscard]] bool Collects(const Action& action) const {
    return options_.breakdown && action.iteration + 2 >= options_.iterations;
  }
  void Stand(const Action& action, TimeNs until, LaneTimes* lane) const;
  void Work(const ScheduledAction& scheduled, const LaneCosts& costs, LaneTimes* lane) const;
  void WaitOfHost(const ScheduledAction& scheduled, const LaneCosts& costs, LaneTimes* lane) const;
  void CountTraffic(const Step& step,
                    const HoldTimes& hold,
                    const LaneCosts& costs,
                    LaneTimes* lane) const;
  [[nodiscard]] TimeNs IssueOf(const ScheduledAction& scheduled,
                               const Step& step,
                               const LaneCosts& costs,
                               const LaneTimes& lane) const;

  const Partition& partition_;
  const RankClass& rank_class_;
  const ClassSchedule& schedule_;
  const ReplayOptions& options_;
};

}  // namespace prism::replayer
