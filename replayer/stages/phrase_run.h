// Runs the iterations of a PhrasedJob: every stage goes through its phrases in host issue order, as
// far as what is known of the other stages allows, until all are through. The same times as
// StageRun's, which takes the ops of a stage one by one; here a pass is one product with a matrix.
//
// A round of the steady part may stand for many (PhraseLoop). No stage begins a turn of it before
// all have gone as far as they can in the turns before. What is known then is a row of registers,
// and each turn moves it on by the same maxima of sums: a function whose components are all convex.
// Let two turns have moved every register by its own time: x, x + r, x + 2r. If a turn from
// x + (n + 2)r gives x + (n + 3)r, then each component is on one line at 0, 1 and n + 2; being
// convex, it is on that line in between. So the turns from x + 2r on to x + (n + 3)r are one.
//
// Inside of a round all stages take a pass in either direction over and over, as long as none comes
// to other layers (PhraseStretch). Those pairs are turns as well: each stage halts one pair further
// on. Once every stage has begun the stretch and stands at the same place of its pair as a turn
// before, each turn takes every stage through the same phrases, in whatever order, and is the same
// maxima of sums of what they may change. What is left from before the stretch crosses a stage in a
// turn, so that no turns are compared before half of the stages may be through.
//
// The second iteration ends after its first steps, or after the first turn of its loop
// (phrase_repeat.cc). Let the first one stand at y there, and end at g(y). Some of y's registers
// are marked, and with them all that is reached from one of them: what ends marked is the longest
// of the ways there, and one of those begins at a mark. Let the second iteration stand at y' after
// the same steps: c later at every mark, nowhere more than c later. g is maxima of sums, so nothing
// ends more than c later than in g(y), and what ends marked not less. Where every register ends
// marked, or not beyond its host, which is marked, the next iteration cannot tell g(y') from g(y) +
// c: every iteration from here on takes c. Debts are no times but begin at none and grow by what
// steps say, so that the same steps leave the same.
//
// Times are counted in halves of a nanosecond, and an odd one is marked: of equal times max takes
// the marked one, and a sum with durations, which are even, is marked where its time is.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/phrased_job.h"
#include "replayer/stages/phrase_compiler.h"
#include "replayer/stages/phrase_stretches.h"
#include "replayer/stages/written_registers.h"

namespace prism::replayer {

class PhraseRun {
 public:
  // What a stage starts with.
  struct StageSetup {
    PhraseCompiler* compiler = nullptr;
    DurationNs first_host_ns = 0;  // host time up to and with the first op that has a stream
    uint16_t first_stream = 0;
  };

  // All outlive the run. `posting`: streams of kPost.
  PhraseRun(const graph::PhrasedJob& job, std::vector<StageSetup> setups, StreamSet posting);

  // From time 0. False where a phrase cannot be compiled, or stages wait for each other: then
  // nothing is known.
  bool Run(int32_t iterations, const PhraseLoop* loop);

  // Start to start of the last iteration.
  [[nodiscard]] DurationNs IterationNs(size_t stage) const;

 private:
  // Before marks: enough for a message to come from the first stage to the last, and for all to be
  // late by what the first stage is.
  static constexpr uint32_t kFirstSteps = 8;

  // One end of a message.
  struct Arrival {
    TimeNs at;
    DurationNs transfer;
  };

  struct Stage;

  // Times of registers and messages: all, or those that the iteration has changed so far.
  enum class Extent : uint8_t { kAll, kChanging };

  // 0: senders, 1: receivers.
  struct Channel {
    std::array<int64_t, 2> posted = {};
    std::array<int64_t, 2> finished = {};
    std::array<Stage*, 2> waiting = {};  // for what that end posts next
    Arrival* arrivals = nullptr;         // rings of room_, by end
    // Of the sender's stream, where nothing waits for its messages.
    TimeNs send_tail = 0;

    [[nodiscard]] bool IsIn(Extent extent) const {
      return extent == Extent::kAll || posted[0] + posted[1] > 0;
    }
  };

  // Times and durations of a run are in halves.
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
    uint32_t stop = 0;      // the next step before which it may have to wait
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

  // Registers and messages that a turn may change, and where stages stand.
  struct Snapshot {
    std::vector<int64_t> shape;
    std::vector<TimeNs> values;
  };

  // Of the loop, or of a stretch.
  struct Turns {
    const PhraseStretch* stretch = nullptr;
    int64_t left = 0;                 // not begun
    std::array<Snapshot, 3> history;  // at their ends, the latest first
    std::vector<DurationNs> moves;    // of registers in a turn
  };

  // Where an iteration is marked: after its first steps, or after the first turn of its loop.
  enum class MarkedAt : uint8_t { kFirstSteps, kFirstTurn };

  // A turn from as far on as `turns` turns like the last ones would lead.
  struct Trial {
    int64_t turns = 0;
    std::vector<DurationNs> excess;  // of registers, over where it would lead

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
  std::unique_ptr<Arrival[]> arrivals_;  // of all channels; not set before they are posted
  uint32_t room_ = 0;
  std::array<std::vector<Meeting>, graph::kGroupAxisCount> meetings_;  // in order
  std::vector<Stage*> work_;
  std::vector<WrittenRegisters> written_;  // by compiler
  const PhraseLoop* loop_ = nullptr;
  PhraseStretches stretches_;
  Turns of_loop_;
  Turns of_stretch_;
  int64_t begun_ = 1;  // turns of the loop, without those jumped over
  bool loop_is_over_ = false;
  bool failed_ = false;
  Snapshot marked_;  // of an iteration
  MarkedAt marked_at_ = MarkedAt::kFirstSteps;
  bool ends_on_marks_ = false;  // that iteration
  bool repeats_ = false;        // an iteration goes on as that one did
  Snapshot now_;                // to compare with it
};

}  // namespace prism::replayer
