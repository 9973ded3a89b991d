#include "launch/emulate/run/calls_pass.h"

#include <time.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/base/parallel.h"
#include "graph/base/units.h"
#include "launch/emulate/sandbox/record_turn.h"
#include "launch/emulate/sandbox/stall_watch.h"
#include "launch/process/interrupt.h"
#include "shim/channel/value_book.h"
#include "slicer/check/call_recorder.h"

namespace prism::launch {
namespace {

using channel::RecordKind;
using slicer::CallsEnd;

constexpr double kOthersPatience = 4;  // times the seconds of the first rank
constexpr int64_t kNapNs = 500'000;
constexpr int32_t kStallSeconds = 120;  // without a record: the rank is not followed further

// Forked or not, a rank does the same; how long it sleeps may differ.
bool SameCalls(const slicer::RankCalls& a, const slicer::RankCalls& b) {
  return std::ranges::equal(a.calls, b.calls, [](const slicer::Call& x, const slicer::Call& y) {
    return x.kind == y.kind && x.stream == y.stream && x.shape == y.shape && x.object == y.object;
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
  std::string values = {};
  bool guessed = false;
  bool finished = false;

  Status See(const channel::Record& record, std::span<const std::byte> payload);
};

Status CallsPass::Slot::See(const channel::Record& record, std::span<const std::byte> payload) {
  watch = watch ? watch : StopWatch();
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
  PRISM_ASSIGN_OR_RETURN(auto store, StartStore(context_, 1));
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
bool CallsPass::IsDone(const Slot& slot) const {
  if (!slot.watch) {
    return false;
  }
  const bool is_first = IsFirst(slot);
  const int32_t steps = slot.recorder.steps();
  if (length_.steps > 0 && steps > length_.steps) {
    return true;
  }
  return slot.watch->Seconds() > length_.seconds * (is_first ? 1 : kOthersPatience) ||
         (is_first && length_.steps == 0 && slot.recorder.HasSeenAllTwice());
}

Status CallsPass::StepSlot(Slot& slot) {
  const RecordTaker see = [&](const channel::Record& record,
                              std::span<const std::byte> payload) -> Result<bool> {
    PRISM_RETURN_IF_ERROR(slot.See(record, payload));
    return !IsDone(slot);
  };
  PRISM_ASSIGN_OR_RETURN(const RecordTurn turn, TakeRecords(*slot.process, see));
  PRISM_RETURN_IF_ERROR(CheckStore(context_, slot.store.get()));
  if (turn.moves > 0) {
    slot.stall_watch.Move();
  }
  if (IsDone(slot)) {
    FinishSlot(slot, CallsEnd::kCut);
  } else if (turn.exited) {
    FinishSlot(slot, slot.process->ExitStatus().ok() ? CallsEnd::kExit : CallsEnd::kFailed);
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
  if (end == CallsEnd::kFailed) {
    recorded.end = slot.process->ExitStatus();
    recorded.calls.failure = recorded.end.message();
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
  recorded_[slot.rank] = std::move(recorded);
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
           starter_.MayStart(wanted_.front().which(), !slots_.empty())) {
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

Result<std::vector<slicer::RankCalls>> CallsPass::RecordMore(const std::vector<Rank>& ranks,
                                                             const Others& others) {
  length_ = others.length;
  seconds_ = others.seconds;
  book_ = others.book;
  AppendValues();
  PRISM_RETURN_IF_ERROR(RecordRound("check", ranks));
  std::vector<slicer::RankCalls> calls;
  for (auto& [rank, recorded] : recorded_) {
    if (!recorded.guessed) {
      calls.push_back(std::move(recorded.calls));
    }
  }
  return calls;
}

Result<std::vector<slicer::RankCalls>> CallsPass::Record(const std::vector<Rank>& ranks,
                                                         const CallsLength& length) {
  length_ = length;
  PRISM_RETURN_IF_ERROR(RecordRound("record", {ranks.front()}));
  AppendValues();
  PRISM_RETURN_IF_ERROR(RecordRound("record", {ranks.begin() + 1, ranks.end()}));
  std::vector<Rank> again;
  for (const auto& [rank, recorded] : recorded_) {
    if (recorded.guessed && ranks.size() > 1) {
      again.push_back(rank);
    }
  }
  AppendValues();
  PRISM_RETURN_IF_ERROR(RecordRound("record again", again));
  std::vector<slicer::RankCalls> calls;
  for (auto& [rank, recorded] : recorded_) {
    if (recorded.end.code() == StatusCode::kEnvironment ||
        (!recorded.end.ok() && recorded.calls.calls.empty())) {
      return recorded.end;
    }
    calls.push_back(std::move(recorded.calls));
  }
  return calls;
}

}  // namespace prism::launch
