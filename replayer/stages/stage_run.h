// Evaluates the iterations of a StagePlan: every stage's host, lanes and streams, advanced as far
// as what is known of the other stages allows, until all are done.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "replayer/engine/breakdown.h"
#include "replayer/stages/stage_costs.h"
#include "replayer/stages/stage_plan.h"

namespace prism::replayer {

class StageRun {
 public:
  // All arguments outlive the run. `detailed`: keeps what each stage did in the last two
  // iterations; then the plan must not be folded.
  StageRun(const StagePlan& plan, const StageCostModel& model, bool detailed);

  // From time 0. False if stages wait for each other in a cycle.
  bool Run(int32_t iterations);

  // Start to start of the last iteration.
  [[nodiscard]] DurationNs IterationNs(size_t stage) const;
  [[nodiscard]] RankTimes Times(size_t stage) const;  // detailed only

 private:
  static constexpr TimeNs kUnknown = -1;

  struct LaneCursor {
    uint32_t next = 0;  // index into the lane
    bool holding = false;
    TimeNs arrival = 0;  // of the hold
  };

  struct Stage {
    std::vector<TimeNs> tails;   // by stream
    std::vector<TimeNs> before;  // tails and host at the start of the iteration
    std::vector<TimeNs> events;  // by event of the iteration
    std::vector<TimeNs> bases;   // by epoch reached: host time minus the plan's host_ns
    std::vector<LaneCursor> lanes;
    LaneCursor waits;  // of the host, through StageLanes::syncs
    TimeNs host = 0;   // at the start of the iteration
    TimeNs start = 0;  // of the iteration, as the engine defines it
    TimeNs next_start = 0;
    bool queued = false;
    Activity activity;
  };

  struct Meeting {
    uint32_t missing = 0;
    TimeNs latest = 0;
  };

  struct State {
    std::vector<Stage> stages;
    std::array<std::vector<TimeNs>, 2> arrivals;  // of receivers, of senders; by message
    std::vector<Meeting> meetings;
  };

  void BeginIteration(bool collects);
  bool RunIteration();
  void Settle();
  void Advance(size_t stage);
  bool AdvanceHost(size_t s);
  bool AdvanceLane(size_t s, uint32_t lane);
  bool Execute(size_t s, uint32_t i, LaneCursor* cursor);
  [[nodiscard]] TimeNs PeerArrival(const StagePost& post) const;
  [[nodiscard]] TimeNs HostAt(size_t s, uint32_t i) const;
  void ApplySegment(const FoldedSegment& segment, TimeNs host, Stage* stage) const;
  void Arrive(size_t s, const Instruction& instruction, const LaneCursor& cursor);
  bool Finish(size_t s, uint32_t i, LaneCursor* cursor);
  bool FinishGroup(size_t s, uint32_t i, const LaneCursor& cursor);
  void Wake(size_t stage);
  [[nodiscard]] bool Done(size_t s) const;
  [[nodiscard]] bool LanePassed(size_t s, uint32_t lane, uint32_t instruction) const;
  [[nodiscard]] TimeNs StartOf(size_t s) const;
  [[nodiscard]] bool IsSteady() const;
  void NoteCompute(Stage* stage, TimeNs begin, TimeNs end) const;
  void NoteTransfer(Stage* stage, TimeNs begin, TimeNs end) const;

  const StagePlan& plan_;
  const StageCostModel& model_;
  const StageCosts& costs_;
  bool detailed_;
  bool collects_ = false;
  State state_;
  std::vector<uint32_t> work_;  // stages that may be able to advance
};

}  // namespace prism::replayer
