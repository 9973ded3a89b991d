// Evaluates the iterations of a StagePlan: every stage's host, lanes and streams, advanced as far
// as what is known of the other stages allows, until all are through.
//
// A steady loop (steady_loop.h) is run turn by turn: no lane begins a turn before all have gone as
// far as they can in the turns before. What is known then is a row of registers. Each turn moves it
// on by the same function, whose results are maxima of sums and hence convex in registers that move
// along lines. If all registers moved by rates of their own in two turns, and do so again in a turn
// tried k turns later from where the lines lead, then they did so in every turn in between, for a
// convex function that meets a line in three points is that line between them. So turns are jumped
// over, k at once, to the same nanosecond (stage_jump.cc). Rates may differ: a stage may work off
// what has gathered in front of it for hundreds of turns, and then change its pace.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "replayer/breakdown.h"
#include "replayer/stages/stage_costs.h"
#include "replayer/stages/stage_plan.h"
#include "replayer/stages/steady_loop.h"

namespace prism::replayer {

class StageRun {
 public:
  // All outlive the run. `detailed`: keeps what each stage did in the last two iterations; the plan
  // must not be folded then.
  StageRun(const StagePlan& plan, const StageCostModel& model, bool detailed);

  // From time 0. False when stages wait for each other in a circle. `loop` outlives the call.
  bool Run(int32_t iterations, const SteadyLoop* loop = nullptr);

  // Whether the loop could be run; the times mean nothing otherwise.
  [[nodiscard]] bool was_steady() const { return was_steady_; }

  // Start to start of the last iteration.
  [[nodiscard]] DurationNs IterationNs(size_t stage) const;
  [[nodiscard]] RankTimes Times(size_t stage) const;  // detailed only

 private:
  static constexpr TimeNs kUnknown = -1;
  static constexpr uint32_t kTurnsKept = 8;  // that lanes may be apart

  struct LaneCursor {
    uint32_t next = 0;  // index into the lane
    uint32_t turn = 0;  // of the loop, or behind it the last
    bool holding = false;
    TimeNs arrival = 0;  // of the hold
  };

  struct Stage {
    std::vector<TimeNs> tails;   // by stream
    std::vector<TimeNs> before;  // tails and host at the start of the iteration
    std::vector<TimeNs> events;  // by event of the iteration
    std::vector<TimeNs> looped;  // by turn, of the last few, and event of the loop
    std::vector<TimeNs> bases;   // by epoch reached: host time less the plan's host_ns
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

  // One end of a message has arrived.
  struct Arrival {
    int64_t message = -1;  // in its channel, turns counted
    TimeNs at = 0;
  };

  // Messages of a channel that are under way, each where its number says.
  struct Channel {
    uint32_t begin = 0;  // in State::sent and received
    uint32_t mask = 0;
    std::array<int64_t, 2> posted = {};    // by receivers, by senders
    std::array<int64_t, 2> finished = {};  // likewise
  };

  struct State {
    std::vector<Stage> stages;
    std::vector<Channel> channels;
    std::array<std::vector<Arrival>, 2> arrivals;  // of receivers, of senders
    std::vector<Meeting> meetings;
    int64_t turns = 1;  // of the loop that are run, those jumped over not counted
    int64_t begun = 1;  // of these
  };

  // Registers at the end of a turn.
  struct Snapshot {
    std::vector<int64_t> shape;  // what the lanes have reached
    std::vector<TimeNs> values;
  };

  void BeginIteration(bool collects);
  void LayOutMessages();
  bool RunIteration();
  void Settle();
  void BeginTurn();
  bool RunTurns();
  bool TryToJump(std::vector<Snapshot>* history, uint32_t period);
  [[nodiscard]] bool KeepsUp() const;
  [[nodiscard]] Snapshot Registers();
  template <typename Visit>
  void VisitRegisters(Visit visit);
  template <typename Visit>
  void VisitStage(size_t s, Visit visit);
  void Advance(size_t stage);
  bool AdvanceHost(size_t s);
  bool AdvanceLane(size_t s, uint32_t lane);
  bool EnterTurn(const Range& loop, LaneCursor* cursor) const;
  bool Execute(size_t s, uint32_t i, LaneCursor* cursor);
  TimeNs& EventOf(size_t s, uint32_t event, uint32_t turn);
  [[nodiscard]] TimeNs EventFor(size_t s, uint32_t event, uint32_t waiting, uint32_t turn);
  [[nodiscard]] int64_t NumberOf(const StagePost& post, uint32_t turn) const;
  [[nodiscard]] Arrival& ArrivalOf(const StagePost& post, bool of_sender, uint32_t turn);
  [[nodiscard]] TimeNs PeerArrival(const StagePost& post, uint32_t turn);
  [[nodiscard]] TimeNs HostAt(size_t s, uint32_t i, uint32_t turn) const;
  [[nodiscard]] size_t EpochOf(size_t s, const Instruction& instruction, uint32_t turn) const;
  void ApplySegment(const FoldedSegment& segment, TimeNs host, Stage* stage) const;
  void Arrive(size_t s, const Instruction& instruction, const LaneCursor& cursor);
  bool Finish(size_t s, uint32_t i, LaneCursor* cursor);
  bool FinishGroup(size_t s, uint32_t i, const LaneCursor& cursor);
  void Wake(size_t stage);
  [[nodiscard]] bool Done(size_t s) const;
  [[nodiscard]] bool LanePassed(size_t s, uint32_t lane, uint32_t instruction, uint32_t turn) const;
  [[nodiscard]] TimeNs StartOf(size_t s) const;
  [[nodiscard]] bool IsSteady() const;
  void NoteCompute(Stage* stage, TimeNs begin, TimeNs end) const;
  void NoteTransfer(Stage* stage, TimeNs begin, TimeNs end) const;

  const StagePlan& plan_;
  const StageCostModel& model_;
  const StageCosts& costs_;
  bool detailed_;
  bool collects_ = false;
  const SteadyLoop* loop_ = nullptr;
  bool was_steady_ = true;
  State state_;
  std::vector<uint32_t> work_;  // stages that may be able to go on
};

}  // namespace prism::replayer
