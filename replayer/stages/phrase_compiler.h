// Phrases (graph/program/phrased_job.h) as a stage runs them: moves of its registers, and in
// between ops that wait for other stages or for the host. What a phrase does depends on the state
// left before it (a PhraseContext): collectives that no wait has paid for and streams that have
// computed. Contexts recur, so each phrase is compiled once per context, however often it is
// called.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "graph/program/phrased_job.h"
#include "replayer/stages/block_library.h"
#include "replayer/stages/phrase_moves.h"
#include "replayer/stages/stage_plan.h"

namespace prism::replayer {

enum class PhraseOpKind : uint8_t {
  kPass,      // a message is received, registers are moved, a message is sent; each is optional
  kExchange,  // messages that the stream, and all after them, wait for
  kMeeting,   // a collective over stages
  kHostSync,  // the host waits for a register
  kOwe,       // adds to a debt
  kPay,       // a debt delays a stream and is thereby cleared
};

struct PhraseOp {
  PhraseOpKind kind = PhraseOpKind::kPass;
  uint16_t reg = 0;   // of its stream
  uint16_t axis = 0;  // kMeeting
  // Move, exchange, or register of a debt; kHostSync: streams that it pays. kPass: kNone if it has
  // no move; the same for messages.
  uint32_t index = kNone;
  uint32_t receive = kNone;  // a message that nothing of its sender waits for
  uint32_t post = kNone;     // one that nothing in this stage waits for
  // In half nanoseconds. kMeeting: the collective; kHostSync: charge; kOwe: the amount added.
  DurationNs halves = 0;
  DurationNs host_halves = 0;  // host time of the phrase up to the kHostSync or the receive
};

// One message of an exchange, seen from one end.
struct PhrasePost {
  uint8_t route = 0;  // RouteOf its channel and sender
  uint16_t reg = 0;   // of its stream
  bool is_send = false;
  bool posted = false;      // nothing in its sender waits for it
  bool eager = false;       // a send ends by itself; its bytes travel before the receiver arrives
  DurationNs transfer = 0;  // at this end, in halves
};

struct PhraseExchange {
  uint32_t posts = 0;  // in PhraseCompiler::posts()
  uint32_t count = 0;
};

struct CompiledPhrase {
  uint32_t ops = 0;  // in PhraseCompiler::ops()
  uint32_t op_count = 0;
  uint32_t next = 0;  // context after it
  DurationNs host_halves = 0;
};

// Axes that messages travel along; channel 2 * axis + way, where way distinguishes the two
// directions around a ring of more than two stages.
inline constexpr std::array<graph::GroupAxis, 3> kPhraseAxes = {
    graph::GroupAxis::kPipeline, graph::GroupAxis::kPipelineForward,
    graph::GroupAxis::kPipelineBackward};
inline constexpr size_t kPhraseChannels = 2 * kPhraseAxes.size();  // with the same sender

// The sender of a channel, seen from one of its ends.
enum class PhraseSender : uint8_t { kPrevious, kSelf, kNext };
inline constexpr size_t kPhraseRoutes = 3 * kPhraseChannels;  // of which a stage is one end
constexpr uint8_t RouteOf(size_t channel, PhraseSender sender) {
  return static_cast<uint8_t>(3 * channel + static_cast<size_t>(sender));
}

// The most events inside a block that may be pending (waited for later) at one time.
inline constexpr uint32_t kMaxLiveEvents = 16;

// PhraseOp::reg if the host waits for all streams.
inline constexpr uint16_t kAllTails = 0xFFFF;

// The most streams that may compute, and a time for each; jobs with more need a StageEvaluator.
inline constexpr size_t kMaxKernelStreams = 4;
using KernelTimes = std::array<DurationNs, kMaxKernelStreams>;

// Collectives that are not yet paid for, and events that say which of them a wait pays for. Those
// whose charge is already fixed, whoever waits first, become a debt of their stream, held in a
// register, so that contexts recur if gradients are reduced in every micro-batch and waited for
// only at the end.
struct PhraseContext {
  struct Owed {
    uint16_t stream = 0;
    DurationNs transfer = 0;
    KernelTimes beside = {};  // compute since then, capped at the transfer

    bool operator==(const Owed&) const = default;
  };
  struct Slot {
    uint16_t slot = 0;
    uint16_t stream = 0;
    uint32_t covers = 0;  // how many of the stream's owed, from the first; after its debt

    bool operator==(const Slot&) const = default;
  };

  StreamSet computed = 0;
  StreamSet debts = 0;  // streams that have one
  KnownTails tails;
  std::vector<Owed> owed;   // in issue order, after the debts
  std::vector<Slot> slots;  // ascending; those that cover any or a debt

  bool operator==(const PhraseContext&) const = default;
};

// What a phrase does when called after collectives that none of its waits pays for: the same
// whatever else is owed.
struct PhraseBody {
  StreamSet computed = 0;  // before it
  KnownTails tails;        // the same
  StreamSet waits = 0;     // streams that must not owe anything before it
  CompiledPhrase phrase;   // without debts that begin after it
  StreamSet computed_after = 0;
  KnownTails tails_after;
  KernelTimes compute = {};
  std::vector<PhraseContext::Owed> owed;   // `beside`: compute of the phrase before it
  std::vector<PhraseContext::Slot> slots;  // `covers`: of `owed`, of the stream
};

// Where the messages of a kind of stage go.
struct PhraseReach {
  bool previous_on_node = false;
  bool next_on_node = false;

  bool operator==(const PhraseReach&) const = default;
};

class PhraseCompiler {
 public:
  // What all kinds of stage of a job share.
  struct Shared {
    const graph::PhrasedJob* job = nullptr;
    const BlockLibrary* library = nullptr;  // with the blocks of the job
    LibraryCosts* costs = nullptr;          // of the library
    StreamSet posting = 0;  // streams with messages that nothing in their stage waits for
  };

  PhraseCompiler(const PhraseCompiler&) = delete;
  PhraseCompiler& operator=(const PhraseCompiler&) = delete;
  // `topologies`: those of the stages of that kind.
  PhraseCompiler(const Shared& shared,
                 uint32_t kind,
                 const LibraryCosts::Topologies& topologies,
                 PhraseReach reach);

  // The index, for compiled(), of a phrase in a context; compiled on first use. Context 0 is that
  // before an iteration.
  uint32_t Find(uint32_t context, uint32_t phrase) {
    const size_t place = size_t{context} * phrases_ + phrase;
    if (place >= table_.size() || table_[place] == kNone) {
      Compile(context, phrase);
    }
    return table_[place];
  }

  // False once a phrase could not be compiled; results of Find are then meaningless.
  [[nodiscard]] bool can_run() const { return can_run_; }

  [[nodiscard]] const CompiledPhrase& compiled(uint32_t index) const { return compiled_[index]; }
  [[nodiscard]] const MoveTape& tape() const { return tape_; }
  [[nodiscard]] const std::vector<PhraseOp>& ops() const { return ops_; }
  [[nodiscard]] const std::vector<PhraseExchange>& exchanges() const { return exchanges_; }
  [[nodiscard]] const std::vector<PhrasePost>& posts() const { return posts_; }
  [[nodiscard]] size_t register_count() const {
    return size_t{first_debt_} + graph::kStageStreamCount;
  }
  // The last ones are debts, by stream.
  [[nodiscard]] uint16_t first_debt() const { return first_debt_; }

 private:
  void Compile(uint32_t context, uint32_t phrase);
  void Write(uint32_t phrase);
  void KeepBody(uint32_t phrase);
  bool Recall(uint32_t phrase);
  uint32_t NumberOfContext();
  void CompilePart(uint32_t part);
  bool CanFold(uint32_t part);
  void FoldPart(uint32_t part);
  void Inline(const LoweredBlock& block);
  void InlineOp(const LoweredBlock& block, uint32_t op);
  void Record(const StageOp& op);
  void Wait(const StageOp& op);
  void Collective(const StageOp& op);
  void Exchange(const LoweredBlock& block, const StageOp& op);
  void Receive(uint32_t message);
  PhraseExchange Messages(const LoweredBlock& block, const StageOp& op);
  PhraseExchange WriteMessages(const graph::PeerGroup& group, uint16_t reg);
  void HostSync(const StageOp& op);
  void Flush(uint32_t post = kNone);
  [[nodiscard]] uint16_t EventRegister(uint32_t event) const {
    return static_cast<uint16_t>(first_event_ + events_[event].place);
  }
  void PlaceEvent(uint32_t event);
  PhraseOp& Push(PhraseOpKind kind, uint16_t stream);
  void LoadContext(const PhraseContext& context);
  void StoreContext();
  void StoreDebts();
  void WriteDebt(uint16_t stream, DurationNs added);
  [[nodiscard]] bool IsSettled(const PhraseContext::Owed& owed) const;
  bool TakeDebt(uint16_t stream);
  [[nodiscard]] DurationNs ChargeOf(DurationNs beside) const;
  void Owe(uint16_t stream, uint32_t transfer);
  [[nodiscard]] bool Follows(uint16_t stream) const;
  DurationNs Settle(uint16_t stream, uint32_t covers, uint16_t waiting, bool any_stream);
  void SetSlot(const PhraseContext::Slot& slot);
  [[nodiscard]] DurationNs TransferNs(uint32_t transfer) const;
  template <typename Registers>
  void MakeRoom(const Registers& registers);

  Shared shared_;
  uint32_t kind_;
  const StagePlan& plan_;
  LibraryCosts& costs_;
  LibraryCosts::Topologies topologies_;
  PhraseReach reach_;
  size_t phrases_;
  uint16_t first_event_;
  bool can_run_ = true;
  uint16_t first_debt_;

  std::vector<uint32_t> table_;  // by context and phrase: compiled
  std::vector<CompiledPhrase> compiled_;
  std::vector<std::vector<PhraseBody>> bodies_;  // by phrase
  std::vector<PhraseContext> contexts_ = {{}};
  std::vector<uint64_t> context_hashes_ = {0};  // of contexts_, except the first
  MoveTape tape_;
  std::vector<PhraseOp> ops_;
  std::vector<PhraseExchange> exchanges_;
  std::vector<PhrasePost> posts_;
  // By program, peer group and the stream's register.
  std::map<std::array<uint32_t, 3>, PhraseExchange> messages_;
  uint32_t folded_part_ = kNone;           // the latest
  const FoldedSegment* folded_ = nullptr;  // of it

  // State of the phrase being compiled. What is owed counts compute relative to `compute_` at its
  // issue; `compute_` advances with every kernel.
  struct Event {
    uint16_t stream = 0;
    uint16_t place = 0;  // among the events that are waited for later
    uint32_t covers = 0;
    uint32_t last_use = 0;
  };
  MoveWriter writer_{&tape_};
  PhraseContext context_;
  CompiledPhrase phrase_;
  PhraseOp pass_;              // that comes next
  std::vector<Event> events_;  // of the block
  KernelTimes compute_ = {};
  using StreamCounts = std::array<uint32_t, graph::kStageStreamCount>;
  StreamCounts owed_count_ = {};   // by stream
  StreamCounts owed_before_ = {};  // the same, before the phrase
  StreamSet owing_ = 0;            // streams that owe any or have a debt
  PhraseBody body_;                // what it starts with, waits for and sets so far
  bool settles_ = false;           // it waits for something owed or for a slot
  uint32_t live_events_ = 0;       // places in use, as bits
};

}  // namespace prism::replayer
