// Runs the iterations of a PhrasedJob: every stage advances through its phrases in host issue
// order, as far as what is known of the other stages allows, until all are done. The times equal
// those of StageRun, which takes the ops of a stage one by one; here a pass is one product with a
// matrix.
//
// A round of the steady part may represent many (PhraseLoop). No stage begins a turn of it before
// all have advanced as far as they can in the previous turns. The state is then a vector of
// registers, and each turn advances it by the same maxima of sums: a function whose components are
// all convex. Suppose that two turns have moved every register by its own time: x, x + r, x + 2r.
// If a turn from x + (n + 2)r yields x + (n + 3)r, then each component lies on one line at 0, 1 and
// n + 2; being convex, it lies on that line in between. So the turns from x + 2r to x + (n + 3)r
// are taken as one.
//
// Inside a round all stages repeat one forward and one backward pass, as long as none reaches
// different layers (PhraseStretch). Those pairs are turns as well: each stage halts one pair
// further on. Once every stage has begun the stretch and is at the same place in its pair as one
// turn before, each turn takes every stage through the same phrases, in whatever order, and is the
// same maxima of sums of what they may change. Effects from before the stretch cross one stage per
// turn, so no turns are compared until half of the stages may be past them.
//
// The second iteration ends after its first steps, or after the first turn of its loop
// (phrase_repeat.cc). Let the state of the first one be y at that point, and g(y) at its end. Some
// of y's registers are marked, and with them everything reached from one of them: whatever ends
// marked is the longest of the paths to it, and one of the longest begins at a mark. Let the state
// of the second iteration be y' after the same steps: c later at every mark, nowhere more than c
// later. g is maxima of sums, so nothing ends more than c later than in g(y), and what ends marked
// ends no less than c later. If every register ends marked, or not later than its host, which is
// marked, the next iteration cannot distinguish g(y') from g(y) + c: every iteration from here on
// takes c. Debts are not times: they begin at zero and grow by what the steps add, so the same
// steps leave the same debts.
//
// Times are counted in half nanoseconds, and an odd one is marked: of equal times max takes the
// marked one, and a sum with durations, which are even, is marked if its time is.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/program/phrased_job.h"
#include "replayer/stages/phrase_compiler.h"
#include "replayer/stages/phrase_stretches.h"
#include "replayer/stages/written_registers.h"

namespace prism::replayer {

class PhraseRun {
 public:
  // What a stage starts with.
  struct StageSetup {
    PhraseCompiler* compiler = nullptr;
    DurationNs first_host_ns = 0;  // host time up to and including the first op with a stream
    uint16_t first_stream = 0;
  };

  // All arguments outlive the run. `posting`: streams of kPost.
  PhraseRun(const graph::PhrasedJob& job, std::vector<StageSetup> setups, StreamSet posting);

  // From time 0. False if a phrase cannot be compiled or stages wait for each other; then no result
  // is valid.
  bool Run(int32_t iterations, const PhraseLoop* loop);

  // Start to start of the last iteration.
  [[nodiscard]] DurationNs IterationNs(size_t stage) const;

 private:
  // Steps before marks: enough for a message to get from the first stage to the last, and for all
  // to be as late as the first stage is.
  static constexpr uint32_t kFirstSteps = 8;

  // One end of a message.
  struct Arrival {
    TimeNs at;
    DurationNs transfer;
  };

  struct Stage;

  // Which times of registers and messages: all, or those that the iteration has changed so far.
  enum class Extent : uint8_t { kAll, kChanging };

  // 0: senders, 1: receivers.
  struct Channel {
    std::array<int64_t, 2> posted = {};
    std::array<int64_t, 2> finished = {};
    std::array<Stage*, 2> waiting = {};  // waiting for that end's next post
    Arrival* arrivals = nullptr;         // rings of room_, by end
    // Tail of the sender's stream if nothing waits for its messages.
    TimeNs send_tail = 0;

    [[nodiscard]] bool IsIn(Extent extent) const {
      return extent == Extent::kAll || posted[0] + posted[1] > 0;
    }
  };

  // Times and durations of a run are in half nanoseconds.
  struct Stage {
    PhraseCompiler* compiler = nullptr;
    std::array<Channel*, kPhraseRoutes> channels = {};  // by PhrasePost::route
    TimeNs* registers = nullptr;                        // in registers_
    size_t register_count = 0;
    size_t written = 0;  // in written_
    const std::vector<uint32_t>* steps = nullptr;
    const PhraseLoop::OfStage* loop = nullptr;
    uint32_t step = 0;
    uint32_t halt = kNone;  // step before which it waits
    uint32_t stop = 0;      // the next step before which it may need to wait
    uint32_t turn = 0;
    uint32_t op = 0;      // of the phrase
    uint32_t phrase = 0;  // compiled
    uint32_t context = 0;
    bool inside = false;   // of the phrase
    bool arrived = false;  // at what the op waits for
    bool queued = false;
    TimeNs computed = 0;  // tail of the compute stream before the phrase
    std::array<uint32_t, graph::kGroupAxisCount> met = {};
    std::vector<TimeNs> before;  // host and tails at the start of the iteration
    TimeNs start = 0;
    TimeNs next_start = 0;
  };

  struct Meeting {
    uint32_t missing = 0;
    TimeNs latest = 0;
    DurationNs longest = 0;
  };

  // Registers and messages that a turn may change, and the positions of the stages.
  struct Snapshot {
    std::vector<int64_t> shape;
    std::vector<TimeNs> values;
  };

  // Of the loop, or of a stretch.
  struct Turns {
    const PhraseStretch* stretch = nullptr;
    int64_t left = 0;                 // not begun
    std::array<Snapshot, 3> history;  // at the ends of the latest turns, latest first
    std::vector<DurationNs> moves;    // of registers in a turn
  };

  // Where an iteration is marked: after its first steps, or after the first turn of its loop.
  enum class MarkedAt : uint8_t { kFirstSteps, kFirstTurn };

  // A trial turn from the state that `turns` further turns like the last ones would lead to.
  struct Trial {
    int64_t turns = 0;
    std::vector<DurationNs> excess;  // of registers, beyond the predicted state

    [[nodiscard]] bool GoesOn() const;
  };

  void BeginIteration();
  bool RunIteration();
  void EndIteration();
  void LeaveSendTails();
  bool RunFirstSteps();
  bool RunFirstTurn();
  [[nodiscard]] bool AllCarryMarks() const;
  void MarkTimes(MarkedAt place);
  [[nodiscard]] bool EndsOnMarks() const;
  void Unmark();
  [[nodiscard]] bool Repeats();
  void RunStretches(const std::vector<PhraseStretch>& stretches);
  [[nodiscard]] bool AllAreIn(const PhraseStretch& stretch) const;
  [[nodiscard]] bool IsWorthASnapshot(const Turns& turns) const;
  void RunTurns(Turns* turns);
  void RunTurn(Turns* turns);
  void Jump(Turns* turns);
  void Shift(const Turns& turns, int64_t by);
  static std::vector<DurationNs> ExcessOf(const Turns& turns, int64_t by, const Snapshot& later);
  static int64_t TurnsWithout(const Trial& near, const Trial& far);
  static bool MovesEvenly(const Turns& turns);
  void TakeSnapshot(Extent extent, Snapshot* snapshot);
  void MoveTo(const Turns& turns, int64_t by);
  template <typename Visit>
  void VisitTimes(Extent extent, Visit visit);
  void HaltBefore(Stage* stage, uint32_t step);
  void WakeAll();
  void Settle();
  void Advance(Stage* stage);
  [[gnu::always_inline]] inline bool NextStep(Stage* stage);
  bool GoesOn(Stage* stage);
  [[nodiscard]] uint32_t StopOf(const Stage& stage) const;
  [[gnu::always_inline]] inline bool Execute(Stage* stage, const PhraseOp& op);
  [[gnu::always_inline]] inline bool Pass(Stage* stage, const PhraseOp& op);
  bool Exchange(Stage* stage, const PhraseOp& op);
  [[gnu::always_inline]] inline bool Receive(Stage* stage,
                                             const PhrasePost& post,
                                             DurationNs host_halves);
  void Arrive(const Stage& stage, const PhraseExchange& exchange, TimeNs at);
  [[gnu::always_inline]] inline void Post(const Stage& stage, const PhrasePost& post);
  bool Meet(Stage* stage, const PhraseOp& op);
  void HostSync(Stage* stage, const PhraseOp& op);
  void Wake(Stage* stage);
  [[nodiscard]] Arrival& ArrivalAt(const Channel& channel, size_t end, int64_t number) {
    return channel.arrivals[end * room_ + (static_cast<size_t>(number) & (room_ - 1))];
  }
  [[gnu::always_inline]] inline void Put(Channel* channel, size_t end, const Arrival& arrival);
  [[nodiscard]] TimeNs StartOf(size_t s) const;
  [[nodiscard]] bool IsSteady();

  const graph::PhrasedJob& job_;
  std::vector<StageSetup> setups_;
  StreamSet posting_;
  std::vector<Stage> stages_;
  std::vector<TimeNs> registers_;
  std::vector<Channel> channels_;        // by PhrasePost::channel and sender
  std::unique_ptr<Arrival[]> arrivals_;  // of all channels; unset until posted
  uint32_t room_ = 0;
  std::array<std::vector<Meeting>, graph::kGroupAxisCount> meetings_;  // in order
  std::vector<Stage*> work_;
  std::vector<WrittenRegisters> written_;  // by compiler
  const PhraseLoop* loop_ = nullptr;
  PhraseStretches stretches_;
  Turns of_loop_;
  Turns of_stretch_;
  int64_t begun_ = 1;  // turns of the loop, not counting those skipped
  bool loop_is_over_ = false;
  bool failed_ = false;
  Snapshot marked_;  // of an iteration
  MarkedAt marked_at_ = MarkedAt::kFirstSteps;
  bool ends_on_marks_ = false;  // that iteration
  bool repeats_ = false;        // an iteration continues as the marked one did
  Snapshot now_;                // to compare with it
};

}  // namespace prism::replayer
