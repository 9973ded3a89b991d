#include "launch/emulate/run/record_pass.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/parallel.h"
#include "graph/job/whole_program.h"
#include "launch/emulate/run/check_report.h"
#include "launch/emulate/run/recorded_process.h"
#include "launch/emulate/sandbox/record_turn.h"
#include "launch/emulate/sandbox/stall_watch.h"
#include "launch/process/output.h"
#include "slicer/record/recorder.h"

namespace prism::launch {
namespace {

RankStarter::Try TryOf(bool is_second_try) {
  return is_second_try ? RankStarter::Try::kSecond : RankStarter::Try::kFirst;
}

// What differs first, op by op and byte by byte; "" if nothing does.
std::string_view Difference(const graph::Fragment& a, const graph::Fragment& b) {
  return a.strings != b.strings                       ? "names"
         : a.signatures != b.signatures               ? "kernels"
         : a.program != b.program                     ? "operations"
         : a.comm_slots != b.comm_slots               ? "communicators"
         : a.peer_slots != b.peer_slots               ? "peers"
         : a.memory != b.memory                       ? "device memory"
         : a.warmup_iterations != b.warmup_iterations ? "iterations to warm up"
                                                      : "";
}

}  // namespace

struct RecordPass::Slot {
  std::unique_ptr<StoreServer> store;
  RecordedProcess recorded;
  StallWatch stall_watch;
  RecordedLength length;
  std::optional<RecordedRank> otherwise = {};
  bool is_second_try = false;
  std::optional<FollowedRank> followed = {};    // for the check
  std::optional<slicer::RankCalls> calls = {};  // once it is not followed any more
  bool finished = false;
};

RecordPass::RecordPass(const Means& means, size_t slots)
    : context_(means.context), starter_(means.starter), budget_(means.budget), slot_count_(slots) {
}

RecordPass::~RecordPass() = default;

void RecordPass::ReportStacks() {
  for (const auto& slot : slots_) {
    slot->recorded.ReportStacks("is being recorded");
  }
}

Status RecordPass::Add(const std::vector<Rank>& ranks,
                       std::string_view values,
                       const PassLength& length) {
  PRISM_CHECK(done());
  check_ = length.check;
  for (const Rank rank : ranks) {
    wanted_.push_back({rank, length.recorded});
  }
  values_bytes_ = values.size();
  if (values.empty()) {
    return OkStatus();
  }
  values_ = std::make_unique<SharedMemory>("prism-values", values);
  return values_->valid() ? OkStatus()
                          : EnvironmentLacks("cannot create shared memory for recorded values");
}

// Rank 0 of a user's program runs on, to see whether it has as many iterations as requested, and
// whether some of them differ.
bool RecordPass::HasSeenAll(const Slot& slot) const {
  const slicer::Recorder& recorder = slot.recorded.recorder();
  if (slot.is_second_try && recorder.has_steady_iterations()) {
    return true;  // what comes later is not compared
  }
  if (!recorder.complete() || !context_.job.user_program || slot.recorded.rank() != Rank(0) ||
      !recorder.steady_iteration().has_value()) {
    return recorder.complete();
  }
  return recorder.has_looked_for_period();
}

bool RecordPass::done() const {
  return wanted_.empty() && slots_.empty();
}

Status RecordPass::StartNext() {
  auto [rank, length, otherwise, is_second_try] = std::move(wanted_.front());
  wanted_.pop_front();
  SandboxRequest request;
  request.rank = rank;
  request.mode = channel::Mode::kRecord;
  request.present = {rank};
  request.iterations = kBuiltInIterations;
  PRISM_ASSIGN_OR_RETURN(auto store, StartStore(context_, 1));
  request.meeting.store_port = store == nullptr ? 0 : store->port();
  if (values_ != nullptr) {
    request.meeting.values = values_->Path();
    request.meeting.value_bytes[rank] = values_bytes_;
  }
  SandboxSpec spec = MakeSandboxSpec(context_, request);
  spec.config.repeats_rounds = 1;
  PRISM_ASSIGN_OR_RETURN(auto process, starter_.Start(spec, TryOf(is_second_try)));
  if (!process->forked() && !is_second_try && starter_.WantsSecondTry()) {
    tries_ = TwoTries{rank};
    wanted_.push_front({rank, length, {}, true});
  }
  slicer::RecorderOptions options = MakeRecorderOptions(context_, rank, length);
  if (context_.job.user_program && rank == Rank(0)) {
    options.steady_iterations = context_.options.iterations;
  }
  const int32_t stall_timeout_s =
      is_second_try ? starter_.patience_s() : context_.options.stall_timeout_s;
  slots_.push_back(std::make_unique<Slot>(
      Slot{std::move(store), RecordedProcess(std::move(process), options),
           StallWatch(stall_timeout_s), length, std::move(otherwise), is_second_try}));
  if (!is_second_try && ChecksProgram(context_)) {
    slots_.back()->followed.emplace(rank, slots_.back()->recorded.process().pid(), check_,
                                    &budget_);
  }
  return OkStatus();
}

// It has shown what is wanted of it.
bool RecordPass::IsDone(Slot& slot) const {
  return HasSeenAll(slot) &&
         (!slot.followed || !slot.followed->goes_on() || slot.followed->IsDone());
}

Status RecordPass::See(Slot& slot,
                       const channel::Record& record,
                       std::span<const std::byte> payload) {
  bool is_recorded = record.kind != channel::RecordKind::kMarker || record.marker.is_note == 0;
  if (slot.followed) {
    PRISM_ASSIGN_OR_RETURN(is_recorded, slot.followed->See(record, payload));
  }
  if (is_recorded) {
    PRISM_RETURN_IF_ERROR(slot.recorded.See(record, payload));
    if (slot.followed && HasSeenAll(slot) && !slot.recorded.recorder().period().has_value()) {
      slot.followed->GoOn();
    }
  }
  return OkStatus();
}

// Before the process is killed. Where it fails after what is recorded, the values of absent ranks
// may be why: it counts as not followed.
void RecordPass::EndCalls(Slot& slot, bool exited) {
  if (!slot.followed) {
    return;
  }
  const Status exit = exited ? slot.recorded.ExitStatus() : OkStatus();
  slot.calls = slot.followed->TakeCalls(exited && exit.ok() ? slicer::CallsEnd::kExit
                                                            : slicer::CallsEnd::kCut);
  if (!exit.ok() && slot.followed->goes_on()) {
    context_.logger.Info("rank {} is checked no further than step {}: {}",
                         slot.recorded.rank().value(), slot.calls->steps - 1,
                         exit.message().substr(0, exit.message().find(kOutputHeading)));
  }
}

Result<bool> RecordPass::StepSlot(Slot& slot) {
  const bool exited = slot.recorded.process().Exited();  // what it has written costs nothing more
  const RecordTaker see = [&](const channel::Record& record,
                              std::span<const std::byte> payload) -> Result<bool> {
    PRISM_RETURN_IF_ERROR(See(slot, record, payload));
    return !IsDone(slot) || (exited && slot.followed && slot.followed->goes_on());
  };
  PRISM_ASSIGN_OR_RETURN(const RecordTurn turn, TakeRecords(slot.recorded.process(), see));
  PRISM_RETURN_IF_ERROR(CheckStore(context_, slot.store.get()));
  if (turn.exited || IsDone(slot)) {
    slot.finished = true;
    EndCalls(slot, exited || (turn.exited && !IsDone(slot)));
    PRISM_RETURN_IF_ERROR(FinishSlot(slot));
  } else if (turn.moves > 0) {
    slot.stall_watch.Move();
  } else if (const Status stall = slot.stall_watch.Check(slot.recorded.process(),
                                                         slot.recorded.recorder().iterations() - 1);
             !stall.ok()) {
    if (!slot.recorded.recorder().has_steady_iterations() && !slot.is_second_try) {
      return stall;
    }
    slot.finished = true;
    EndCalls(slot, false);
    PRISM_RETURN_IF_ERROR(FinishSlot(slot));
  }
  return turn.records > 0 || turn.exited;
}

// What a program does after the requested iterations is ignored.
Status RecordPass::EndProgram(Slot& slot) {
  if (HasSeenAll(slot) || slot.recorded.recorder().has_steady_iterations()) {
    slot.recorded.process().Kill();  // a user's program, which would train on
    return OkStatus();
  }
  if (!slot.recorded.process().Exited()) {
    return RunFailed("it hangs");  // a second try
  }
  return slot.recorded.ExitStatus();
}

void RecordPass::FinishSecondTry(Slot& slot) {
  std::optional<graph::Fragment> fragment;
  if (EndProgram(slot).ok()) {
    Result<graph::Fragment> finished = slot.recorded.recorder().Finish();
    if (finished.ok() && !slot.recorded.recorder().period().has_value()) {
      fragment = *std::move(finished);
    }
  }
  tries_->forked = std::move(fragment);
  CompareTries();
}

Status RecordPass::FinishSlot(Slot& slot) {
  if (slot.is_second_try) {
    FinishSecondTry(slot);
    return OkStatus();
  }
  const Status end = EndProgram(slot);
  Result<graph::Fragment> fragment = end.ok() ? slot.recorded.recorder().Finish() : end;
  const bool is_whole = end.ok() && slot.recorded.recorder().has_no_iterations();
  const std::optional<int32_t> steps =
      is_whole ? graph::kWholeProgram : slot.recorded.recorder().period();
  if (tries_.has_value() && tries_->rank == slot.recorded.rank() &&
      (!fragment.ok() || steps.has_value())) {
    const bool beside = slots_.size() > 1;
    LeaveOutSecondTry();
    if (!end.ok() && beside) {  // perhaps because of what the other did to its files
      starter_.EndSecondTry(slot.recorded.rank(), "end");
      wanted_.push_front({slot.recorded.rank(), slot.length, std::move(slot.otherwise)});
      return OkStatus();
    }
  }
  if (!fragment.ok() && slot.otherwise.has_value()) {
    context_.logger.Info("rank {}: alternating steps could not be recorded as one iteration: {}",
                         slot.recorded.rank().value(), fragment.status().message());
    recorded_.push_back(*std::move(slot.otherwise));
    return OkStatus();
  }
  if (end.code() == StatusCode::kRunFailed && !slot.recorded.speculative_producers().empty()) {
    stopped_.push_back({slot.recorded.rank(), end, slot.recorded.speculative_producers(),
                        slot.recorded.NonspeculativeValues()});
    return OkStatus();
  }
  PRISM_RETURN_IF_ERROR(end);
  if (!fragment.ok() && !steps.has_value()) {
    program_ended_well_ = true;
    return Status(fragment.status().code(),
                  fmt::format("recording rank {}: {}; {}", slot.recorded.rank().value(),
                              fragment.status().message(), slot.recorded.process().LastLines()));
  }
  std::optional<RecordedRank> recorded;
  if (fragment.ok()) {
    slot.recorded.AddRealTimes(&*fragment);
    slicer::Recorder& recorder = slot.recorded.recorder();
    recorded.emplace();
    recorded->odd = recorder.OddFragments(*fragment);
    recorded->odd_kinds = recorder.odd().kinds;
    recorded->seen = recorder.odd().seen;
    recorded->values = slot.recorded.Values(fragment->warmup_iterations);
    recorded->guessed = slot.recorded.guessed();
    recorded->speculative_producers = slot.recorded.speculative_producers();
    recorded->calls = std::move(slot.calls);
    recorded->fragment = *std::move(fragment);
  }
  if (slot.recorded.recorder().has_looked_less()) {
    context_.logger.Info(
        "rank {} was recorded for {} iterations only, because they have many ops; if something "
        "else recurs less often, mark iterations with a range \"iteration\"",
        slot.recorded.rank().value(), slot.recorded.recorder().iterations());
  }
  if (steps.has_value()) {  // again, with longer iterations
    wanted_.push_front({slot.recorded.rank(), {.steps = *steps}, std::move(recorded)});
  } else {
    Keep(*std::move(recorded));
  }
  return OkStatus();
}

void RecordPass::Keep(RecordedRank recorded) {
  if (!tries_.has_value() || tries_->rank != recorded.fragment.rank) {
    recorded_.push_back(std::move(recorded));
    return;
  }
  starter_.LimitPatience(recorded.fragment.startup_seconds);
  tries_->alone = std::move(recorded);
  CompareTries();
}

void RecordPass::CompareTries() {
  if (!tries_->alone.has_value() || !tries_->forked.has_value()) {
    return;
  }
  const graph::Fragment& alone = tries_->alone->fragment;
  const std::optional<graph::Fragment>& forked = *tries_->forked;
  starter_.EndSecondTry(alone.rank, forked.has_value() ? Difference(alone, *forked) : "end");
  LeaveOutSecondTry();
}

// Any more, or at all.
void RecordPass::LeaveOutSecondTry() {
  std::erase_if(wanted_, [](const Wanted& wanted) { return wanted.is_second_try; });
  for (const auto& slot : slots_) {
    slot->finished = slot->finished || slot->is_second_try;
  }
  if (tries_->alone.has_value()) {
    recorded_.push_back(*std::move(tries_->alone));
  }
  tries_.reset();
}

// A second try waits for the first iteration of the first, which may compile kernels for both. It
// then runs beside it, on a processor of the workers that have nothing to record yet.
bool RecordPass::MayStartNext() {
  const bool is_beside =
      !wanted_.empty() && wanted_.front().is_second_try && AvailableThreads() > 1;
  const bool has_iterated = slots_.empty() || slots_.front()->recorded.recorder().iterations() > 0;
  if (wanted_.empty() || slots_.size() >= slot_count_ + (is_beside ? 1 : 0) ||
      !starter_.MayStart(TryOf(wanted_.front().is_second_try), !slots_.empty(), has_iterated)) {
    return false;
  }
  if (!wanted_.front().is_second_try) {
    return true;
  }
  if (!starter_.WantsSecondTry()) {
    LeaveOutSecondTry();
    return MayStartNext();
  }
  return has_iterated;
}

Result<bool> RecordPass::Step() {
  bool busy = false;
  while (MayStartNext()) {
    PRISM_RETURN_IF_ERROR(StartNext());
    busy = true;
  }
  for (const auto& slot : slots_) {
    if (slot->finished) {
      continue;
    }
    PRISM_ASSIGN_OR_RETURN(const bool did_something, StepSlot(*slot));
    busy = busy || did_something;
  }
  std::erase_if(slots_, [](const auto& slot) { return slot->finished; });
  return busy;
}

bool RecordPass::Wait() {
  if (slots_.empty()) {
    return false;
  }
  WaitForRecords(slots_[waits_++ % slots_.size()]->recorded.process());
  return true;
}

std::vector<Rank> ShareOf(const std::vector<Rank>& ranks, size_t i, size_t workers) {
  std::vector<Rank> share;
  for (; i < ranks.size(); i += workers) {
    share.push_back(ranks[i]);
  }
  return share;
}

}  // namespace prism::launch
