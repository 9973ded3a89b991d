#include "launch/emulate/clock/coordinator.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/describe.h"
#include "launch/emulate/clock/verifier.h"

namespace prism::launch {
namespace {

constexpr int32_t kReady = 0;
constexpr int32_t kNotReady = 1;
constexpr size_t kShownWaits = 8;    // lines of a stall in a report
constexpr size_t kShownMembers = 8;  // of a communicator in a report

// What is known of a program that may be why a rank departs: a warning, and what to do.
constexpr std::pair<std::string_view, const char*> kWhyRanksDepart[] = {
    {"iterations_vary",
     "no two of its iterations are the same: if it draws lengths of batches, give it a seed, so "
     "that it draws the same each time it starts"},
    {"several_issuing_threads",
     "more threads give the device work than the one that steps and autograd's, so that their ops "
     "come in an order by chance: let the one that steps wait for the others' calls"},
};

// The other side of an op: its ranks other than `rank`.
std::string OtherSide(const graph::Graph& graph, Rank rank, uint32_t op) {
  const graph::Program& program = graph.role_of(rank).program;
  if (program.kind[op] == graph::OpKind::kCollective) {
    const CommId comm(graph.ranks.comms(rank)[program.comm_slot[op]]);
    const auto members = graph.communicators.members_of(comm);
    const size_t shown = std::min(kShownMembers, members.size());
    return fmt::format(
        "the other members expect the same call: ranks {}{}",
        fmt::join(members.begin(), members.begin() + static_cast<long>(shown), ", "),
        shown < members.size() ? fmt::format(", ... ({} in all)", members.size()) : std::string());
  }
  if (program.kind[op] == graph::OpKind::kPeerGroup) {
    std::vector<std::string> parts;
    for (const graph::PeerTransfer& transfer :
         program.peer_groups[program.signature[op]].transfers) {
      parts.push_back(fmt::format("rank {} {} {} bytes",
                                  graph.ranks.peers(rank)[transfer.peer_slot],
                                  transfer.is_send ? "receives" : "sends", transfer.bytes));
    }
    return fmt::format("its peers there: {}", fmt::join(parts, ", "));
  }
  return {};
}

// The next op of the rank from `op` on that involves others: what its peers wait for.
std::string NextShared(const graph::Graph& graph, Rank rank, uint32_t op) {
  const graph::Program& program = graph.role_of(rank).program;
  for (uint32_t i = op; i < program.size(); ++i) {
    const std::string other = OtherSide(graph, rank, i);
    if (!other.empty()) {
      return fmt::format("next op that others take part in: {}; {}",
                         graph::DescribeRankOp(graph, rank, i), other);
    }
  }
  return {};
}

}  // namespace

Result<Coordinator> Coordinator::Create(const graph::Graph& graph,
                                        const replayer::ReplayOptions& options,
                                        const std::vector<Rank>& sandbox_ranks) {
  PRISM_ASSIGN_OR_RETURN(replayer::Engine engine,
                         replayer::Engine::Create(graph, options, sandbox_ranks));
  Coordinator coordinator(graph, options.iterations, std::move(engine));
  for (const Rank rank : sandbox_ranks) {
    coordinator.members_[rank].rank = rank;
  }
  return coordinator;
}

void Coordinator::MeasureArrivals(double scale) {
  for (auto& [rank, member] : members_) {
    engine_.MeasureArrivals(rank);
    member.holds.emplace(rank, scale);
  }
}

HoldAccuracy Coordinator::hold_accuracy() const {
  HoldAccuracy all;
  for (const auto& [rank, member] : members_) {
    if (member.holds) {
      all.Add(member.holds->accuracy());
    }
  }
  return all;
}

Coordinator::Member& Coordinator::MemberOf(Rank rank) {
  const auto found = members_.find(rank);
  PRISM_CHECK(found != members_.end());
  return found->second;
}

replayer::OpPosition Coordinator::EndOf(Rank rank) const {
  return int64_t{iterations_} * graph_->role_of(rank).program.size();
}

void Coordinator::Take(WireReader* events) {
  while (!events->empty()) {
    TakeOne(GetEvent(events));
  }
}

void Coordinator::TakeOne(const RankEvent& event) {
  Member& member = MemberOf(event.rank);
  switch (event.kind) {
    case RankEventKind::kIssued:
      member.position = event.position;
      engine_.Issue(event.rank, event.position);
      return;
    case RankEventKind::kHostGap:
      PassHostTime(member, event.value);
      return;
    case RankEventKind::kHostWait:
      ++extra_waits_;
      return;
    case RankEventKind::kDeparted:
      Depart(member, event);
      return;
    case RankEventKind::kArrived:
      PRISM_CHECK(member.holds.has_value());
      member.holds->Begin(event.position, event.value);
      return;
    case RankEventKind::kPassed:
      PRISM_CHECK(member.holds.has_value());
      member.holds->End(event.position, event.value);
      return;
    default:
      member.waiting.push_back(event);
  }
}

// Host time that is not in the graph.
void Coordinator::PassHostTime(Member& member, DurationNs duration) {
  engine_.InsertHostGap(member.rank, duration);
  member.extra_host_ns += duration;
  if (member.extra_host_example.empty()) {
    const uint32_t size = graph_->role_of(member.rank).program.size();
    member.extra_host_example =
        fmt::format("rank {} spends {} before op {} of iteration {}", member.rank.value(),
                    FormatDuration(duration), member.position % size, member.position / size);
  }
}

// Of a program that ended after `done` of the iterations that repeat.
std::string Coordinator::IterationsNeeded(int64_t done) const {
  const int64_t before = graph_->job.facts.warmup_iterations;
  std::string text = fmt::format(
      "it has {}, the first {} before they repeat; {} of those that repeat are replayed, so it "
      "needs {}: let it run {} more",
      FormatCounted(before + done, "iteration"), before, iterations_, before + iterations_,
      iterations_ - done);
  return done > 0 ? text + fmt::format(", or give --iterations {}", done) : text;
}

void Coordinator::Depart(Member& member, const RankEvent& event) {
  member.departed = true;
  if (!departure_.empty()) {
    return;
  }
  departed_ = member.rank;
  const uint32_t size = graph_->role_of(member.rank).program.size();
  const auto op = static_cast<uint32_t>(event.position % size);
  // What comes after the last op of an iteration belongs to that iteration.
  const bool behind = event.expected.empty();
  departure_ =
      fmt::format("rank {} departs from the graph in iteration {}\n  it does:  {}\n  graph:    {}",
                  member.rank.value(), event.position / size - (behind ? 1 : 0), event.did,
                  behind ? "the end of the iteration" : event.expected);
  if (member.left) {
    departure_ += "\n  " + IterationsNeeded(member.position / size);
  }
  const std::string shared = NextShared(*graph_, member.rank, op);
  if (!shared.empty()) {
    departure_ += "\n  " + shared;
  }
  for (const auto& [code, why] : kWhyRanksDepart) {
    if (std::ranges::find(graph_->warnings, code, &graph::Warning::code) !=
        graph_->warnings.end()) {
      departure_ += fmt::format("\n  {}", why);
    }
  }
  engine_.Run();
  const std::vector<std::string> stall = engine_.DescribeStall();
  for (size_t i = 0; i < std::min(kShownWaits, stall.size()); ++i) {
    departure_ += "\n  then " + stall[i];
  }
  if (stall.size() > kShownWaits) {
    departure_ += fmt::format("\n  and {} more wait", stall.size() - kShownWaits);
  }
}

// When the event that the op at the position recorded ended; null while not known.
std::optional<TimeNs> Coordinator::EventTime(Rank rank, replayer::OpPosition position) const {
  switch (position) {
    case kBeforeFirst:
      return 0;
    case kBehindLast:
      return engine_.IdleTime(rank);
    default:
      return engine_.EndTime(rank, position);
  }
}

// When the event ended; at time 0 if it was recorded before the first iteration.
std::optional<TimeNs> Coordinator::EndOfEvent(Rank rank, replayer::OpPosition position) const {
  return position < 0 ? TimeNs{0} : engine_.EndTime(rank, position);
}

// Everything that ends no later than an event that the host has waited for is complete, too.
TimeNs Coordinator::WaitedUntil(const Member& member, TimeNs now) const {
  return std::max(now, EndOfEvent(member.rank, member.waited_for).value_or(0));
}

bool Coordinator::TryAnswer(Member& member,
                            const RankEvent& ask,
                            bool nothing_moves,
                            RankAnswer* answer) {
  answer->rank = ask.rank;
  answer->request = ask.request;
  if (ask.kind == RankEventKind::kAskEvent && ask.value == 0) {
    // A watching thread: answered from what is known, without an effect on time.
    answer->status = EndOfEvent(ask.rank, ask.position) ? kReady : kNotReady;
    return true;
  }
  const std::optional<TimeNs> now = engine_.HostTime(ask.rank);
  if (!now || member.departed) {
    return false;
  }
  answer->host_time_ns = *now;
  switch (ask.kind) {
    case RankEventKind::kAskHostTime:
      member.waited_for = ask.position;
      return true;
    case RankEventKind::kAskElapsed:
      return AnswerElapsed(member, ask, answer);
    default:
      return AnswerPoll(member, ask, nothing_moves, answer);
  }
}

bool Coordinator::AnswerElapsed(const Member& member,
                                const RankEvent& ask,
                                RankAnswer* answer) const {
  const std::optional<TimeNs> first = EventTime(ask.rank, ask.position);
  const std::optional<TimeNs> last = EventTime(ask.rank, ask.value);
  if (!first || !last) {
    return false;
  }
  const bool under_way =
      ask.value >= 0 && std::max(*first, *last) > WaitedUntil(member, answer->host_time_ns);
  answer->status = under_way ? kNotReady : kReady;
  answer->value_ns = under_way ? 0 : *last - *first;
  return true;
}

bool Coordinator::AnswerPoll(Member& member,
                             const RankEvent& ask,
                             bool nothing_moves,
                             RankAnswer* answer) {
  const TimeNs now = answer->host_time_ns;
  const std::optional<TimeNs> end = EndOfEvent(ask.rank, ask.position);
  if (!end && !nothing_moves) {
    return false;
  }
  answer->status = end && *end <= WaitedUntil(member, now) ? kReady : kNotReady;
  if (end && answer->status == kNotReady && ask.loop_ns > 0) {
    answer->host_time_ns = now + ask.loop_ns;
    PassHostTime(member, ask.loop_ns);
  }
  if (!end) {
    // Nothing else can advance: the program polls for something that only its own further work, or
    // that of another polling rank, can bring about. Polling again has to take time.
    const std::pair<replayer::OpPosition, replayer::OpPosition> poll = {member.position,
                                                                        ask.position};
    if (member.last_poll == poll) {
      answer->host_time_ns = now + ask.value;
      PassHostTime(member, ask.value);
    }
    member.last_poll = poll;
  }
  return true;
}

// Ends of the rank's events that have become known.
void Coordinator::CollectEnds(Member& member, std::vector<EventEnd>* ends) {
  const graph::Program& program = graph_->role_of(member.rank).program;
  for (; member.reported_until < member.position; ++member.reported_until) {
    const auto op = static_cast<size_t>(member.reported_until % program.size());
    if (program.kind[op] == graph::OpKind::kEventRecord) {
      member.unreported_events.push_back(member.reported_until);
    }
  }
  std::erase_if(member.unreported_events, [&](replayer::OpPosition position) {
    const std::optional<TimeNs> end = engine_.EndTime(member.rank, position);
    if (end) {
      ends->push_back({member.rank, position, *end});
    }
    return end.has_value();
  });
}

AnswerBatch Coordinator::Advance() {
  AnswerBatch batch;
  engine_done_ = engine_.Run();
  bool arrived = true;
  while (arrived) {
    arrived = false;
    for (auto& [rank, member] : members_) {
      arrived = (member.holds && member.holds->PassArrivals(&engine_)) || arrived;
    }
    engine_done_ = arrived ? engine_.Run() : engine_done_;
  }
  for (auto& [rank, member] : members_) {
    if (member.holds) {
      member.holds->CollectEnds(engine_, &batch.holds);
    }
  }
  for (const bool nothing_moves : {false, true}) {
    for (auto& [rank, member] : members_) {
      std::erase_if(member.waiting, [&](const RankEvent& ask) {
        RankAnswer answer;
        const bool known = TryAnswer(member, ask, nothing_moves, &answer);
        if (known) {
          batch.answers.push_back(answer);
        }
        return known;
      });
    }
    const bool all_wait = std::all_of(members_.begin(), members_.end(), [](const auto& entry) {
      return entry.second.left || !entry.second.waiting.empty();
    });
    if (!batch.answers.empty() || !all_wait) {
      break;
    }
  }
  for (const RankAnswer& answer : batch.answers) {
    CollectEnds(MemberOf(answer.rank), &batch.ends);
  }
  return batch;
}

// True when the rank has nothing more that it must do from `position` on.
bool Coordinator::OnlyOptionalLeft(Rank rank, replayer::OpPosition position) const {
  const graph::Program& program = graph_->role_of(rank).program;
  for (replayer::OpPosition at = position; at < EndOf(rank); ++at) {
    if (!MayBeLeftOut(*graph_, program, static_cast<uint32_t>(at % program.size()))) {
      return false;
    }
  }
  return true;
}

void Coordinator::RankLeft(Rank rank) {
  Member& member = MemberOf(rank);
  member.left = true;
  if (member.departed) {
    return;
  }
  if (!OnlyOptionalLeft(rank, member.position)) {
    const graph::Program& program = graph_->role_of(rank).program;
    const auto op = static_cast<uint32_t>(member.position % program.size());
    Depart(member, {.kind = RankEventKind::kDeparted,
                    .rank = rank,
                    .position = member.position,
                    .did = "the end of its program",
                    .expected = graph::DescribeRankOp(*graph_, rank, op)});
    return;
  }
  member.position = EndOf(rank);
  engine_.Issue(rank, member.position);
}

bool Coordinator::all_left() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const auto& entry) { return entry.second.left; });
}

bool Coordinator::finished() const {
  return engine_done_ && all_left();
}

std::vector<std::string> Coordinator::Deadlock() const {
  for (const auto& [rank, member] : members_) {
    if (!member.left && member.waiting.empty()) {
      return {};
    }
  }
  return engine_done_ ? std::vector<std::string>() : engine_.DescribeStall();
}

DurationNs Coordinator::extra_host_ns() const {
  DurationNs sum = 0;
  for (const auto& [rank, member] : members_) {
    sum += member.extra_host_ns;
  }
  return sum;
}

std::string Coordinator::extra_host_example() const {
  for (const auto& [rank, member] : members_) {
    if (member.extra_host_ns > 0) {
      return member.extra_host_example;
    }
  }
  return {};
}

double Coordinator::progress() const {
  double lowest = 1;
  for (const auto& [rank, member] : members_) {
    const double end = static_cast<double>(std::max<replayer::OpPosition>(EndOf(rank), 1));
    lowest = std::min(lowest, static_cast<double>(member.position) / end);
  }
  return lowest;
}

}  // namespace prism::launch
