// Evaluates the iterations of a StagePlan: every stage's host, lanes and streams, advanced as far
// as what is known of the other stages allows, until all are done.
//
// Most of a long iteration is its steady part, whose rounds are equal (equal_rounds.h), so their
// times are extrapolated. No stage begins a round before all have advanced as far as they can in
// the rounds before it. What happens from there on depends on a vector of times: hosts, tails,
// events, messages under way. What waits for what does not depend on times, so a round takes the
// vector x at its beginning to F(x) at its end, and as every time is a maximum of sums of earlier
// ones, each component of F is convex.
//
// It is not enough that two rounds have moved all times by one constant, nor is it often so: a host
// that runs ahead of its device has a pace of its own. Suppose instead that two rounds have moved
// every time by its own step r: from x to x + r and x + 2r. Let a trial round from x + (n + 2)r
// lead to x + (n + 3)r. Along that line each component of F(x + t r) - t r is convex and has the
// same value at t = 0, 1 and n + 2, hence everywhere in between; so the rounds from x + 2r on do
// lead to x + (n + 3)r, to the nanosecond. If the trial leads elsewhere, the pace changes on the
// way, and half as many rounds are tried.
//
// The trial is a round of the plan, n rounds further on, and the times that it may refer to are
// moved there: those of the two rounds before it (equal rounds refer no further back). Whatever
// else it referred to would be unknown there, and the trial would not come to its end.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "replayer/engine/breakdown.h"
#include "replayer/stages/equal_rounds.h"
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

  // Rounds of the last iteration that were extrapolated; none if detailed.
  [[nodiscard]] int64_t skipped_rounds() const { return skipped_rounds_; }

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
    uint32_t halt = kNone;  // instruction before which it waits
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

  // At the beginning of a round: the times that the following rounds depend on, and which of them
  // are known and what waits.
  struct Snapshot {
    std::vector<TimeNs> times;
    std::vector<int64_t> shape;
    bool complete = true;  // nothing waits that began before the previous round
  };

  // Of the latest rounds, the last one first.
  using History = std::array<Snapshot, 3>;

  void BeginIteration(bool collects);
  void RunRounds();
  void RunTo(size_t round);
  void HaltAt(size_t round);
  [[nodiscard]] static bool MovesEvenly(const History& history);
  size_t Skip(size_t round, const History& history);
  void MoveTo(size_t round, size_t by, const History& history);
  [[nodiscard]] Snapshot TakeSnapshot(size_t round);
  template <typename Visit>
  void VisitTimes(size_t round, Visit visit);
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
  EqualRounds equal_;
  int64_t skipped_rounds_ = 0;
  State state_;
  std::vector<uint32_t> work_;  // stages that may be able to advance
};

}  // namespace prism::replayer
