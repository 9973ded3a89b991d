#include "launch/emulate/clock/emulation_worker.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/describe.h"
#include "launch/emulate/clock/emulated_member.h"
#include "launch/emulate/sandbox/record_turn.h"
#include "launch/emulate/sandbox/stack_text.h"
#include "replayer/engine/op_position.h"

namespace prism::launch {
namespace {

using channel::Record;
using channel::RecordKind;

// While recording, the steady iteration was recognised when the second one after it began.
constexpr int32_t kSettled = 2;

// The same poll this often in a row, with nothing in between, is a loop that waits. (The allocator
// polls at every allocation, and an optimizer that creates its state makes dozens in a row.)
constexpr int kPollsOfLoop = 256;

// Sleep while waiting for others: on process 0, or if all members wait, only messages can arrive,
// and an answer usually comes within a few microseconds; each sleep is twice as long as the one
// before.
constexpr int64_t kFirstNapNs = 5'000;
constexpr int64_t kNapNs = 50'000;
// A worker without other workers to wait for can sleep until its own ranks send something.
constexpr int64_t kWaitNs = 300'000;

// A rank that departed continues until its next NCCL call or wait, where it is held and shows its
// stack; a rank that never gets there is asked for its stack after this time.
constexpr std::chrono::seconds kRunOn{2};
constexpr size_t kShownFrames = 8;

// Whether a rank that departs by such an op is held in the op itself.
bool IsHeldIn(graph::OpKind op) {
  return op == graph::OpKind::kCollective || op == graph::OpKind::kPeerGroup ||
         op == graph::OpKind::kStreamSync || op == graph::OpKind::kDeviceSync;
}

}  // namespace

EmulationWorker::EmulationWorker(const graph::Graph& graph, EmulationStart start, Hooks hooks)
    : graph_(graph),
      start_(std::move(start)),
      hooks_(std::move(hooks)),
      index_(graph),
      // A poll that took no time would be repeated for ever.
      poll_cost_ns_(std::max(1LL, std::llround(graph.cluster.parameters.Value("host.poll_ns")))) {
}

EmulationWorker::~EmulationWorker() = default;

slicer::OpStream EmulationWorker::NewStream(Rank rank) const {
  const graph::ProgramFacts& facts = graph_.job.facts;
  return slicer::OpStream(rank, facts.warmup_iterations, facts.steps_per_iteration);
}

Status EmulationWorker::StartProcesses() {
  for (const EmulatedRank& emulated : start_.ranks) {
    const Rank rank = emulated.process.rank;
    PRISM_ASSIGN_OR_RETURN(auto process, hooks_.start_process(emulated.process));
    members_.push_back(std::make_unique<Member>(
        Member{rank, std::move(process), NewStream(rank),
               Verifier(graph_, index_, rank, start_.iterations), OutOfMemoryWatch(rank),
               StallWatch(start_.stall_timeout_s), HostClock(graph_, rank, start_.perturbations),
               EmulatedRounds(start_.rounds_left_out)}));
    if (emulated.keeps_history) {
      members_.back()->history.emplace();
    }
  }
  return OkStatus();
}

void EmulationWorker::Tell(const RankEvent& event) {
  PutEvent(event, &events_);
}

void EmulationWorker::SendEvents() {
  if (!events_.empty()) {
    hooks_.send_events(std::exchange(events_, WireWriter()).Take());
  }
}

void EmulationWorker::FlushIssued(Member& member) {
  const replayer::OpPosition position = member.verifier.position();
  if (position != member.reported) {
    member.reported = position;
    Tell({.kind = RankEventKind::kIssued, .rank = member.rank, .position = position});
  }
}

// Whether a user's program trains on after the last iteration of the emulation. A rank that has
// departed is waited for, since what it issues is not an iteration of the graph; so is a GPU that
// has not reached everything that was issued.
bool EmulationWorker::HasRunAll(const Member& member) const {
  return !member.departed && member.stream.iteration() >= start_.iterations &&
         !member.holds.under_way();
}

void EmulationWorker::TakeOp(Member& member, const slicer::PlacedOp& placed) {
  if (member.departed || placed.place.iteration >= start_.iterations) {
    return;
  }
  Verdict verdict = member.verifier.Check(placed, member.stream);
  if (member.verifier.TakeLeftOutWait()) {
    member.clock.Stop();
  }
  if (verdict.kind == VerdictKind::kMismatch) {
    FlushIssued(member);
    member.departed = true;
    member.runs_on = !IsHeldIn(placed.op.kind);
    member.departed_at = std::chrono::steady_clock::now();
    member.departure = {.kind = RankEventKind::kDeparted,
                        .rank = member.rank,
                        .position = member.reported,
                        .did = std::move(verdict.did),
                        .expected = std::move(verdict.expected)};
    return;
  }
  if (verdict.kind == VerdictKind::kHostWait) {
    FlushIssued(member);
    Tell({.kind = RankEventKind::kHostWait, .rank = member.rank});
  }
  if (verdict.gap_ns > 0) {
    FlushIssued(member);
    member.clock.Pass(verdict.gap_ns);
    Tell({.kind = RankEventKind::kHostGap, .rank = member.rank, .value = verdict.gap_ns});
  }
}

// The events of the latest two rounds are then those of the last two left out.
Status EmulationWorker::EndRound(Member& member, const channel::RoundBody& round) {
  PRISM_ASSIGN_OR_RETURN(const EmulatedRounds::LeftOut left_out,
                         member.rounds.End(round.left, member.startup_ns, member.stream));
  const replayer::OpPosition before = member.verifier.position();
  for (const slicer::PlacedOp& op : left_out.ops) {
    TakeOp(member, op);
  }
  if (member.stream.iteration() < 0) {
    member.startup_ns += left_out.cost_ns;
  } else if (left_out.rounds > 0) {
    const replayer::OpPosition moved = member.verifier.position() - before;
    for (auto& [event, position] : member.events) {
      position += position >= before - 2 * moved / left_out.rounds ? moved : 0;
    }
  }
  member.process->channel().Reply(round.request, {0, 0, left_out.rounds});
  return OkStatus();
}

// Reports a departure with its source lines, once the rank is held.
void EmulationWorker::TellDeparture(Member& member, bool exited) {
  const bool waits = !member.held && std::chrono::steady_clock::now() - member.departed_at < kRunOn;
  if (!member.departure || (waits && !exited)) {
    return;
  }
  const bool issues_alone = std::ranges::find(graph_.warnings, "several_issuing_threads",
                                              &graph::Warning::code) == graph_.warnings.end();
  const char* place = !issues_alone    ? "its main thread is at"
                      : member.runs_on ? "had then got to"
                                       : "at";
  for (const std::string& frame : InnermostFrames(member.process->Stacks(), kShownFrames)) {
    member.departure->did += fmt::format("\n    {} {}", std::exchange(place, "at"), frame);
  }
  Tell(*member.departure);
  member.departure.reset();
}

void EmulationWorker::ReportStacks() {
  for (const auto& member : members_) {
    const replayer::OpPosition position = member->verifier.position();
    const uint32_t size = graph_.role_of(member->rank).program.size();
    const auto op = static_cast<uint32_t>(position % size);
    fmt::print(stderr, "rank {} has issued {} ops of iteration {}; next in the graph: {}\n{}",
               member->rank.value(), op, position / size,
               graph::DescribeRankOp(graph_, member->rank, op), member->process->Stacks());
  }
}

replayer::OpPosition EmulationWorker::EventPosition(const Member& member, uint32_t event) {
  const auto found = member.events.find(event);
  return found == member.events.end() ? kBeforeFirst : found->second;
}

// The event is recorded by that one of `ops`; by none before the first iteration.
void EmulationWorker::SeeEvent(Member& member,
                               uint32_t event,
                               std::span<const slicer::PlacedOp> ops) {
  member.events[event] = ops.empty()
                             ? kBeforeFirst
                             : member.verifier.PositionOf(ops.back().place).value_or(kBehindLast);
}

// Counts a poll and returns the host time that passes if it is answered "not ready". A single poll
// costs nothing, as in the recording; in a loop that waits every poll has a cost. It makes no
// difference who answers, which depends on when messages arrive.
DurationNs EmulationWorker::CountPoll(Member& member, replayer::OpPosition event) const {
  const std::pair<replayer::OpPosition, replayer::OpPosition> poll = {member.verifier.position(),
                                                                      event};
  member.poll_count = member.last_poll == poll ? member.poll_count + 1 : 1;
  member.last_poll = poll;
  if (member.poll_count < kPollsOfLoop) {
    return 0;
  }
  return member.poll_count == kPollsOfLoop ? kPollsOfLoop * poll_cost_ns_ : poll_cost_ns_;
}

// Answers a poll from what this worker knows. False: process 0 has to be asked.
bool EmulationWorker::AnswerPoll(Member& member, const RankEvent& ask) {
  const replayer::OpPosition position = member.verifier.position();
  std::optional<TimeNs> now = member.clock.At(position);
  const std::optional<TimeNs> end = ask.position < 0 ? TimeNs{0} : member.clock.EndOf(ask.position);
  if (!now || !end || member.departed) {
    return false;
  }
  bool ready = *end <= *now;
  if (!ready && member.waited_for >= 0) {
    const std::optional<TimeNs> waited = member.clock.EndOf(member.waited_for);
    if (!waited) {
      return false;
    }
    ready = *end <= *waited;
  }
  if (!ready && ask.loop_ns > 0) {
    FlushIssued(member);
    Tell({.kind = RankEventKind::kHostGap, .rank = member.rank, .value = ask.loop_ns});
    member.clock.Pass(ask.loop_ns);
    *now += ask.loop_ns;
  }
  member.process->channel().Reply(ask.request, {ready ? 0 : 1, member.startup_ns + *now, 0});
  return true;
}

// A hold of an op that the graph does not have (before the first iteration, after the last) ends at
// once; so do all holds if ranks take turns on a GPU.
void EmulationWorker::TakeHold(Member& member, const channel::HoldBody& hold) {
  if (hold.ended != 0) {
    member.holds.End(hold.hold_stream, hold.sequence);
  }
  const std::optional<replayer::OpPosition> position =
      member.holds.PositionOf(hold.hold_stream, hold.sequence);
  if (!position || start_.shares_gpu) {
    member.process->channel().SetDeadline(hold.hold_stream, hold.sequence, 0);
    return;
  }
  FlushIssued(member);
  Tell({.kind = hold.ended != 0 ? RankEventKind::kPassed : RankEventKind::kArrived,
        .rank = member.rank,
        .position = *position,
        .value = static_cast<int64_t>(hold.time_ns)});
}

// A rank that has departed is held in it, to show where it is, until time passes.
void EmulationWorker::TakeFence(Member& member, uint32_t request) {
  if (member.departed && !time_passes_) {
    member.held = true;
    member.fence = request;
    return;
  }
  member.process->channel().Reply(request, {0, 0, 0});
}

// What a record asks of process 0; null if it asks nothing.
std::optional<RankEvent> EmulationWorker::AskOf(const Member& member, const Record& record) const {
  RankEvent ask;
  ask.rank = member.rank;
  switch (record.kind) {
    case RecordKind::kSync:
      ask.kind = RankEventKind::kAskHostTime;
      ask.request = record.sync.request;
      ask.position = record.sync.kind == channel::SyncKind::kEvent
                         ? EventPosition(member, record.sync.event)
                         : kBeforeFirst;
      return ask;
    case RecordKind::kQueryEvent:
      ask.kind = RankEventKind::kAskEvent;
      ask.request = record.event.request;
      ask.position = EventPosition(member, record.event.event);
      ask.value = record.thread == channel::kWatchingThread ? 0 : poll_cost_ns_;
      return ask;
    case RecordKind::kElapsed:
      ask.kind = RankEventKind::kAskElapsed;
      ask.request = record.elapsed.request;
      ask.position = EventPosition(member, record.elapsed.start_event);
      ask.value = EventPosition(member, record.elapsed.end_event);
      return ask;
    default:
      return std::nullopt;
  }
}

void EmulationWorker::TakeRequest(Member& member, const Record& record) {
  if (record.kind == RecordKind::kHold) {
    TakeHold(member, record.hold);
    return;
  }
  if (record.kind == RecordKind::kFence) {
    TakeFence(member, record.sync.request);
    return;
  }
  std::optional<RankEvent> ask = AskOf(member, record);
  // On a real GPU the program waits for that, and for nobody here.
  if (!ask || start_.on_gpu) {
    return;
  }
  const bool watching = ask->kind == RankEventKind::kAskEvent && ask->value == 0;
  if (ask->kind == RankEventKind::kAskHostTime) {
    member.waited_for = ask->position;
    member.clock.Stop();
  } else if (ask->kind == RankEventKind::kAskEvent && !watching) {
    ask->loop_ns = CountPoll(member, ask->position);
    if (AnswerPoll(member, *ask)) {
      return;
    }
  }
  if (member.departed && !watching) {
    member.held = true;
    return;
  }
  FlushIssued(member);
  if (!watching) {
    member.asked[ask->request] = member.reported;
  }
  Tell(*ask);
}

Status EmulationWorker::Take(Member& member,
                             const Record& record,
                             std::span<const std::byte> payload) {
  if (record.kind == RecordKind::kBeginAgain) {
    member.BeginAgain(NewStream(member.rank));
    return OkStatus();
  }
  if (record.kind == RecordKind::kRound) {
    return EndRound(member, record.round);
  }
  member.memory_watch.See(record, payload);
  const auto ops = member.stream.Push(record, payload);
  if (member.stream.iteration() == kSettled) {
    member.stream.SettleRule();
  }
  Status status = ops.status();
  if (status.ok() && member.history) {
    status = member.history->See(record, member.stream.definitions());
  }
  if (!status.ok()) {
    return status.WithContext(fmt::format("emulating rank {}", member.rank.value()));
  }
  if (member.stream.iteration() < 0) {
    member.startup_ns += channel::HostCostNs(member.process->channel().config(), record);
  }
  for (const slicer::PlacedOp& op : *ops) {
    member.rounds.Keep(op);
    TakeOp(member, op);
  }
  if (record.kind == RecordKind::kEventRecord) {
    SeeEvent(member, record.event.event, *ops);
  }
  if (record.hold_stream != 0) {
    const bool counts = !ops->empty() && !member.departed && !HasRunAll(member);
    member.holds.Add(record.hold_stream - 1,
                     counts ? member.verifier.PositionOf(ops->back().place) : std::nullopt);
  }
  if (record.kind != RecordKind::kQueryEvent) {
    member.last_poll = {-1, -1};  // it did something in between: not a loop of polls
  }
  TakeRequest(member, record);
  return OkStatus();
}

Result<bool> EmulationWorker::StepMember(Member& member) {
  const RecordTaker take = [&](const Record& record,
                               std::span<const std::byte> payload) -> Result<bool> {
    PRISM_RETURN_IF_ERROR(Take(member, record, payload));
    return !HasRunAll(member);
  };
  PRISM_ASSIGN_OR_RETURN(const RecordTurn turn, TakeRecords(*member.process, take));
  FlushIssued(member);
  TellDeparture(member, turn.exited);
  member.left = turn.exited || HasRunAll(member);
  if (!member.left) {
    if (turn.moves > 0 || !member.asked.empty() || member.departed || start_.interactive) {
      member.stall_watch.Move();
    }
    PRISM_RETURN_IF_ERROR(member.stall_watch.Check(*member.process, member.stream.iteration()));
    return turn.records > 0;
  }
  if (!HasRunAll(member)) {
    const Status exit = member.process->ExitStatus(member.memory_watch.TailLines());
    if (!exit.ok()) {
      return member.memory_watch.Explain(exit);
    }
  }
  SendEvents();  // what it did before it exited
  hooks_.rank_left(member.rank, member.process->log(),
                   member.history ? member.history->Encode() : std::string());
  return true;
}

Result<bool> EmulationWorker::Step() {
  bool busy = false;
  Status failure;
  for (const auto& member : members_) {
    const Result<bool> did_something = StepMember(*member);
    if (!did_something.ok()) {
      failure = did_something.status();
      break;
    }
    busy = busy || *did_something;
  }
  // Events have to arrive before the failure: a departure may explain it.
  SendEvents();
  PRISM_RETURN_IF_ERROR(failure);
  for (auto& member : members_) {
    if (member->left && HasRunAll(*member)) {
      member->process->Mute();
      parked_.push_back(std::move(member));
    }
  }
  std::erase_if(members_, [](const auto& member) { return member == nullptr || member->left; });
  wait_ns_ = busy ? 0 : wait_ns_;
  return busy;
}

EmulationWorker::Member* EmulationWorker::FindMember(Rank rank) {
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const auto& entry) { return entry->rank == rank; });
  return found == members_.end() ? nullptr : found->get();
}

void EmulationWorker::Deliver(WireReader* message) {
  wait_ns_ = 0;
  const AnswerBatch batch = GetBatch(message);
  for (const EventEnd& end : batch.ends) {
    if (Member* member = FindMember(end.rank); member != nullptr) {
      member->clock.SetEnd(end.position, end.end_ns);
    }
  }
  for (const HoldEnd& end : batch.holds) {
    Member* member = FindMember(end.rank);
    const auto hold = member == nullptr ? std::nullopt : member->holds.HoldAt(end.position);
    if (hold) {
      member->process->channel().SetDeadline(
          hold->hold_stream, hold->sequence,
          static_cast<uint64_t>(std::max<int64_t>(0, end.gpu_ns)));
    }
  }
  for (const RankAnswer& answer : batch.answers) {
    Member* member = FindMember(answer.rank);
    if (member == nullptr) {
      continue;
    }
    if (const auto asked = member->asked.find(answer.request); asked != member->asked.end()) {
      member->clock.Set(asked->second, answer.host_time_ns);
      member->asked.erase(asked);
    }
    member->process->channel().Reply(
        answer.request, {answer.status, member->startup_ns + answer.host_time_ns, answer.value_ns});
  }
}

void EmulationWorker::LetTimePass() {
  time_passes_ = true;
  for (const auto& member : members_) {
    channel::Consumer& channel = member->process->channel();
    channel.SetHung();
    if (member->fence != 0) {
      channel.Reply(std::exchange(member->fence, 0), {0, 0, 0});
    }
  }
}

void EmulationWorker::Wait() {
  wait_ns_ = start_.has_all ? kWaitNs : std::clamp(2 * wait_ns_, kFirstNapNs, kNapNs);
  const bool all_ask = std::all_of(members_.begin(), members_.end(),
                                   [](const auto& member) { return !member->asked.empty(); });
  if (all_ask) {
    // Only a message can change anything, and messages do not wake sleepers.
    const timespec nap = {.tv_sec = 0, .tv_nsec = std::min(wait_ns_, kNapNs)};
    nanosleep(&nap, nullptr);
  } else {
    members_[waits_++ % members_.size()]->process->channel().WaitForRecord(wait_ns_);
  }
}

}  // namespace prism::launch
