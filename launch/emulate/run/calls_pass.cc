#include "launch/emulate/run/calls_pass.h"

#include <time.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <ranges>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parallel.h"
#include "graph/base/units.h"
#include "launch/emulate/sandbox/record_turn.h"
#include "launch/emulate/sandbox/stall_watch.h"
#include "launch/process/interrupt.h"
#include "launch/process/process_clock.h"
#include "shim/channel/value_book.h"
#include "slicer/check/call_recorder.h"
#include "slicer/check/told_ranks.h"

namespace prism::launch {
namespace {

using channel::RecordKind;
using slicer::CallsEnd;

constexpr double kOthersPatience = 4;  // times the seconds of the first rank
constexpr double kIdleness = 4;        // seconds without work that count as one with
// A rank that runs alone waits in vain at once, but for another thread of its own.
constexpr int64_t kBlockedAfterMs = 1'500;
// As long as keys of others are not known, it is not left to find out that it polls in vain.
constexpr int32_t kFewPolls = 3;
constexpr int32_t kMostPolls = 10'000;
constexpr int kRoundsOfKeys = 6;  // that ranks wait for each other's keys in turn
constexpr int64_t kNapNs = 500'000;
constexpr int32_t kStallSeconds = 120;  // without a record: the rank is not followed further

// Forked or not, a rank does the same; how long it sleeps may differ, and which of several threads
// comes first.
bool SameCalls(const slicer::RankCalls& a, const slicer::RankCalls& b) {
  const auto others = [](const slicer::Call& call) { return call.thread != 0; };
  const bool alone = std::ranges::none_of(a.calls, others);
  return std::ranges::equal(a.calls | std::views::filter(std::not_fn(others)),
                            b.calls | std::views::filter(std::not_fn(others)),
                            [&](const slicer::Call& x, const slicer::Call& y) {
                              return x.kind == y.kind && x.shape == y.shape &&
                                     (!alone || (x.stream == y.stream && x.object == y.object));
                            });
}

}  // namespace

struct CallsPass::Slot {
  Rank rank;
  std::unique_ptr<StoreServer> store;
  std::unique_ptr<SandboxProcess> process;
  slicer::CallRecorder recorder;
  StallWatch stall_watch;
  std::shared_ptr<Recorded> alone = {};
  StopWatch started = {};
  std::optional<StopWatch> watch = {};  // since the first record
  std::optional<ProcessClock> clock = {};
  std::string values = {};
  bool guessed = false;
  bool finished = false;

  Status See(const channel::Record& record, std::span<const std::byte> payload);
};

Status CallsPass::Slot::See(const channel::Record& record, std::span<const std::byte> payload) {
  if (!watch) {
    watch.emplace();
    clock.emplace(process->pid());
  }
  if (record.kind == RecordKind::kValue && values.size() < channel::kMaxValuesOfRank) {
    channel::ValueHead head = record.value;
    head.producer = static_cast<int32_t>(rank.value());
    head.iteration = -1;
    channel::AppendValue(head, payload, &values);
  }
  guessed = guessed || record.kind == RecordKind::kGuess;
  return recorder.Consume(record, payload);
}

CallsPass::CallsPass(const RunContext& context, RankStarter& starter, Progress& progress)
    : context_(context), progress_(progress), starter_(starter) {
}

CallsPass::~CallsPass() = default;

Status CallsPass::StartNext() {
  const Wanted wanted = std::move(wanted_.front());
  wanted_.pop_front();
  SandboxRequest request;
  request.rank = wanted.rank;
  request.mode = channel::Mode::kRecord;
  request.present = {wanted.rank};
  PRISM_ASSIGN_OR_RETURN(auto store,
                         StartStore(context_, 1, KeysOfOthers(wanted.rank), kBlockedAfterMs,
                                    {knows_counters_ ? kMostPolls : kFewPolls, gives_up_}));
  request.meeting.store_port = store == nullptr ? 0 : store->port();
  if (values_ != nullptr) {
    request.meeting.values = values_->Path();
    request.meeting.value_bytes[wanted.rank] = book_.size();
  }
  PRISM_ASSIGN_OR_RETURN(auto process,
                         starter_.Start(MakeSandboxSpec(context_, request), wanted.which()));
  slots_.push_back(std::make_unique<Slot>(Slot{wanted.rank, std::move(store), std::move(process),
                                               slicer::CallRecorder(wanted.rank),
                                               StallWatch(kStallSeconds), wanted.alone}));
  return OkStatus();
}

bool CallsPass::IsFirst(const Slot& slot) const {
  return recorded_.empty() && slot.alone == nullptr && !seconds_;
}

// The first rank decides; the others follow it as far.
bool CallsPass::IsDone(Slot& slot) const {
  if (!slot.watch) {
    return false;
  }
  const bool is_first = IsFirst(slot);
  const int32_t steps = slot.recorder.steps();
  if (length_.steps > 0 && steps > length_.steps) {
    return true;
  }
  const double most = length_.seconds * (is_first ? 1 : kOthersPatience);
  return (slot.watch->Seconds() > most && slot.clock->Seconds(kIdleness) > most) ||
         (is_first && length_.steps == 0 && slot.recorder.HasSeenAllTwice());
}

Status CallsPass::StepSlot(Slot& slot) {
  const RecordTaker see = [&](const channel::Record& record,
                              std::span<const std::byte> payload) -> Result<bool> {
    PRISM_RETURN_IF_ERROR(slot.See(record, payload));
    return !IsDone(slot);
  };
  PRISM_ASSIGN_OR_RETURN(const RecordTurn turn, TakeRecords(*slot.process, see));
  if (slot.store != nullptr && !slot.store->status().ok()) {
    FinishSlot(slot, CallsEnd::kBlocked);
    return OkStatus();
  }
  if (turn.moves > 0) {
    slot.stall_watch.Move();
  }
  if (IsDone(slot)) {
    FinishSlot(slot, CallsEnd::kCut);
  } else if (turn.exited) {
    const Status end = slot.process->ExitStatus();
    if (end.code() == StatusCode::kEnvironment) {
      return end;  // of no other rank it would be better
    }
    FinishSlot(slot, end.ok() ? CallsEnd::kExit : CallsEnd::kFailed);
  } else if (const Status stall = slot.stall_watch.Check(*slot.process, slot.recorder.steps());
             !stall.ok()) {
    context_.logger.Warning("{}; the rank is followed no further", stall.message());
    FinishSlot(slot, CallsEnd::kCut);
  }
  return OkStatus();
}

void CallsPass::FinishSlot(Slot& slot, CallsEnd end) {
  slot.finished = true;
  Recorded recorded = {.calls = slot.recorder.TakeCalls(),
                       .values = std::move(slot.values),
                       .guessed = slot.guessed};
  recorded.calls.end = end;
  recorded.keys = slot.store == nullptr ? WrittenKeys() : slot.store->End();
  if (end == CallsEnd::kFailed) {
    recorded.end = slot.process->ExitStatus();
    recorded.calls.failure = recorded.end.message();
  } else if (end == CallsEnd::kBlocked) {
    slot.process->Kill();
  } else if (end == CallsEnd::kCut) {
    slot.process->Kill();
    length_.steps = IsFirst(slot) ? std::max(1, recorded.calls.steps - 1) : length_.steps;
  }
  if (slot.alone != nullptr) {
    starter_.EndSecondTry(slot.rank, SameCalls(slot.alone->calls, recorded.calls) ? "" : "calls");
    recorded = std::move(*slot.alone);
  } else if (!slot.process->forked() && starter_.WantsSecondTry()) {
    starter_.LimitPatience(slot.started.Seconds() - (slot.watch ? slot.watch->Seconds() : 0));
    wanted_.push_front({slot.rank, std::make_shared<Recorded>(std::move(recorded))});
    return;
  }
  Recorded& known = recorded_[slot.rank];
  const bool only_fails = gives_up_ && end == CallsEnd::kFailed;
  if (!only_fails || known.calls.end != CallsEnd::kBlocked) {
    known = std::move(recorded);
  }
}

Status CallsPass::RecordRound(const std::string& doing, const std::vector<Rank>& ranks) {
  if (ranks.empty()) {
    return OkStatus();
  }
  progress_.BeginStage(doing, FormatCounted(static_cast<int64_t>(ranks.size()), "rank"));
  for (const Rank rank : ranks) {
    wanted_.push_back({rank});
  }
  const auto cores = static_cast<size_t>(AvailableThreads());
  size_t waits = 0;
  const StopWatch watch;
  while (!wanted_.empty() || !slots_.empty()) {
    PRISM_RETURN_IF_ERROR(InterruptStatus());
    if (seconds_ && watch.Seconds() > *seconds_) {
      wanted_.clear();
      slots_.clear();
      break;
    }
    while (!wanted_.empty() && slots_.size() < cores &&
           starter_.MayStart(wanted_.front().which(), !slots_.empty(), true)) {
      PRISM_RETURN_IF_ERROR(StartNext());
    }
    for (const auto& slot : slots_) {
      PRISM_RETURN_IF_ERROR(StepSlot(*slot));
    }
    std::erase_if(slots_, [](const auto& slot) { return slot->finished; });
    progress_.Update(1 - static_cast<double>(wanted_.size() + slots_.size()) /
                             static_cast<double>(ranks.size()));
    if (!slots_.empty()) {
      WaitForRecords(*slots_[waits++ % slots_.size()]->process);
    } else if (!wanted_.empty()) {  // for the fork server
      const timespec nap = {.tv_sec = 0, .tv_nsec = kNapNs};
      nanosleep(&nap, nullptr);
    }
  }
  return OkStatus();
}

// What all have sent is known from now on.
void CallsPass::AppendValues() {
  for (auto& [rank, recorded] : recorded_) {
    book_ += std::exchange(recorded.values, "");
  }
  if (!book_.empty()) {
    values_ = std::make_unique<SharedMemory>("prism-values", book_);
  }
}

// Once all are recorded each counter is as if the rank came last: ranks that are not recorded add
// what others do.
std::shared_ptr<const StoreValues> CallsPass::KeysOfOthers(Rank rank) const {
  StoreValues values;
  std::map<std::string, int64_t> sums;
  int64_t others = 0;
  for (const auto& [other, recorded] : recorded_) {
    if (other == rank) {
      continue;
    }
    ++others;
    values.insert(recorded.keys.values.begin(), recorded.keys.values.end());
    for (const auto& [key, added] : recorded.keys.added) {
      sums[key] += added;
    }
  }
  const int64_t all = context_.job.parallel.world_size() - 1;
  for (const auto& [key, sum] : sums) {
    if (knows_counters_) {
      values[key] = fmt::format("{}", sum * all / others);
    } else {
      values.erase(key);
    }
  }
  return std::make_shared<const StoreValues>(std::move(values));
}

// With the keys that others have set by now, as long as somebody gets further; then with time-outs,
// which some programs expect.
Status CallsPass::RecordBlockedAgain() {
  knows_counters_ = true;
  size_t before = 0;
  for (int round = 0; round < kRoundsOfKeys; ++round) {
    std::vector<Rank> blocked;
    for (const auto& [rank, recorded] : recorded_) {
      if (recorded.calls.end == CallsEnd::kBlocked) {
        blocked.push_back(rank);
      }
    }
    const bool is_stuck = round > 1 && blocked.size() >= before;
    if (blocked.empty() || (is_stuck && gives_up_)) {
      break;
    }
    gives_up_ = gives_up_ || is_stuck;
    before = blocked.size();
    PRISM_RETURN_IF_ERROR(RecordRound("record again", blocked));
  }
  return OkStatus();
}

// Those come first, since there may not be time for all.
std::vector<Rank> CallsPass::WithTold(const slicer::RankCalls& first,
                                      const std::vector<Rank>& known,
                                      std::vector<Rank> ranks) {
  if (!context_.record_ranks.empty()) {
    return ranks;
  }
  std::vector<Rank> all = known;
  all.insert(all.end(), ranks.begin(), ranks.end());
  slicer::WantedRanks wanted = slicer::RanksToldBy(first, all);
  told_ = wanted.told;
  wanted.told.insert(wanted.told.end(), wanted.others.begin(), wanted.others.end());
  wanted.told.insert(wanted.told.end(), ranks.begin(), ranks.end());
  return std::move(wanted.told);
}

std::vector<slicer::RankCalls> CallsPass::TakeCalls(
    const std::function<bool(const Recorded&)>& is_wanted) {
  std::vector<slicer::RankCalls> calls;
  for (auto& [rank, recorded] : recorded_) {
    if (is_wanted(recorded)) {
      recorded.calls.is_told = std::ranges::find(told_, rank) != told_.end();
      calls.push_back(std::move(recorded.calls));
    }
  }
  return calls;
}

Result<std::vector<slicer::RankCalls>> CallsPass::RecordMore(std::vector<Rank> ranks,
                                                             const Others& others) {
  length_ = others.length;
  seconds_ = others.seconds;
  book_ = others.book;
  AppendValues();
  if (others.first != nullptr) {
    ranks = WithTold(*others.first, others.known, std::move(ranks));
  }
  PRISM_RETURN_IF_ERROR(RecordRound("check", ranks));
  const channel::ValueBook book(std::as_bytes(std::span(book_)));
  return TakeCalls([&](const Recorded& recorded) {
    return !recorded.guessed && recorded.calls.end != CallsEnd::kBlocked &&
           !book.HasOtherContributions(std::as_bytes(std::span(recorded.values)));
  });
}

Result<std::vector<slicer::RankCalls>> CallsPass::Record(const std::vector<Rank>& ranks,
                                                         const CallsLength& length) {
  length_ = length;
  PRISM_RETURN_IF_ERROR(RecordRound("record", {ranks.front()}));
  AppendValues();
  const size_t given = book_.size();
  PRISM_RETURN_IF_ERROR(
      RecordRound("record", WithTold(recorded_.begin()->second.calls, {ranks.front()},
                                     {ranks.begin() + 1, ranks.end()})));
  AppendValues();
  const std::map<int32_t, size_t> others =
      channel::ValueBook(std::as_bytes(std::span(book_))).OthersContributions();
  std::vector<Rank> again;
  for (const auto& [rank, recorded] : recorded_) {
    const auto other = others.find(static_cast<int32_t>(rank.value()));
    const bool is_misled =
        other != others.end() && other->second > (rank == ranks.front() ? 0 : given);
    if ((recorded.guessed || is_misled) && recorded_.size() > 1) {
      again.push_back(rank);
    }
  }
  PRISM_RETURN_IF_ERROR(RecordRound("record again", again));
  PRISM_RETURN_IF_ERROR(RecordBlockedAgain());
  for (const auto& [rank, recorded] : recorded_) {
    if (!recorded.end.ok() && recorded.calls.calls.empty()) {
      return recorded.end;
    }
  }
  return TakeCalls([](const Recorded& /*recorded*/) { return true; });
}

}  // namespace prism::launch
