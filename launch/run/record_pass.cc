#include "launch/run/record_pass.h"

#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/process/stop_watch.h"
#include "launch/sandbox/out_of_memory.h"
#include "launch/sandbox/record_turn.h"
#include "launch/sandbox/stall_watch.h"
#include "launch/sandbox/torch_version.h"
#include "shim/channel/value_book.h"
#include "slicer/record/recorder.h"

namespace prism::launch {
namespace {

constexpr int64_t kWaitNs = 2'000'000;  // wait for records of one process, while others wait
// For the built-in workload, which is given its number of iterations.
constexpr int kWarmupIterations = 1;
constexpr int kRecordedIterations = 2;
constexpr size_t kLargestHeld = 3;  // blocks shown when the device is full

}  // namespace

struct RecordPass::Slot {
  std::unique_ptr<StoreServer> store;
  std::unique_ptr<SandboxProcess> process;
  slicer::RecorderOptions options;
  slicer::Recorder recorder;
  OutOfMemoryWatch memory_watch;
  StallWatch stall_watch;
  slicer::HeldMemory held = {};  // when the device was last full
  StopWatch watch = {};          // since its start
  double startup_seconds = 0;    // until the program's first kernel; 0 before it
  int32_t iterations = 0;        // that have ended
  double iterations_end = 0;     // when the last of them did
  double iteration_seconds = 0;  // its length
  std::string torch_version = {};
  std::string values = {};  // that the rank sent to absent ones
  size_t certain_bytes =
      0;  // of these, sent before it was given any value that was not its giver's
  std::vector<Rank> guessed_from = {};
  std::optional<RecordedRank> otherwise = {};
  bool finished = false;

  Status See(const channel::Record& record, std::span<const std::byte> payload) {
    if (record.kind == channel::RecordKind::kBeginAgain) {
      recorder = slicer::Recorder(options);
      startup_seconds = 0;
      return OkStatus();
    }
    memory_watch.See(record, payload);
    if (record.kind == channel::RecordKind::kValue && !recorder.has_steady_iterations()) {
      channel::ValueHead head = record.value;
      head.giver = static_cast<int32_t>(process->rank().value());
      head.iteration = recorder.iterations();
      channel::AppendValue(head, payload, &values);
    }
    if (record.kind == channel::RecordKind::kGuess) {
      certain_bytes = guessed_from.empty() ? values.size() : certain_bytes;
      guessed_from.emplace_back(static_cast<uint32_t>(record.guess.giver));
    }
    if (startup_seconds == 0 && record.kind == channel::RecordKind::kKernel) {
      startup_seconds = watch.Seconds();
      torch_version = TorchVersionOf(process->channel().producer_process());
    }
    PRISM_RETURN_IF_ERROR(recorder.Consume(record, payload));
    if (record.kind == channel::RecordKind::kOutOfMemory) {
      held = recorder.Held(kLargestHeld);  // a failing program frees its blocks
    }
    if (recorder.iterations() > iterations) {
      iterations = recorder.iterations();
      const double now = watch.Seconds();
      iteration_seconds = now - iterations_end;
      iterations_end = now;
    }
    return OkStatus();
  }
};

RecordPass::RecordPass(const RunContext& context, size_t slots)
    : context_(context), slot_count_(slots) {
}

RecordPass::~RecordPass() = default;

void RecordPass::ReportStacks() {
  for (const auto& slot : slots_) {
    fmt::print(stderr, "rank {} is being recorded\n{}", slot->process->rank().value(),
               slot->process->Stacks());
  }
}

Status RecordPass::Add(const std::vector<Rank>& ranks,
                       std::string_view values,
                       const RecordedLength& length) {
  PRISM_CHECK(done());
  for (const Rank rank : ranks) {
    wanted_.push_back({rank, length});
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
  const slicer::Recorder& recorder = slot.recorder;
  if (!recorder.complete() || !context_.job.user_program || slot.process->rank() != Rank(0) ||
      !recorder.steady_iteration().has_value()) {
    return recorder.complete();
  }
  return recorder.has_looked_for_period();
}

bool RecordPass::done() const {
  return wanted_.empty() && slots_.empty();
}

Status RecordPass::StartNext() {
  auto [rank, length, otherwise] = std::move(wanted_.front());
  wanted_.pop_front();
  SandboxRequest request;
  request.rank = rank;
  request.mode = channel::Mode::kRecord;
  request.present = {rank};
  request.iterations = kWarmupIterations + kRecordedIterations;
  PRISM_ASSIGN_OR_RETURN(auto store, StartStore(context_, 1));
  request.meeting.store_port = store == nullptr ? 0 : store->port();
  if (values_ != nullptr) {
    request.meeting.values = values_->Path();
    request.meeting.value_bytes[rank] = values_bytes_;
  }
  PRISM_ASSIGN_OR_RETURN(auto process, SandboxProcess::Start(MakeSandboxSpec(context_, request)));
  slicer::RecorderOptions options;
  options.rank = rank;
  options.warmup_iterations = context_.job.user_program ? 0 : kWarmupIterations;
  options.steps_per_iteration = length.steps;
  options.least_iterations = length.iterations;
  options.chosen = length.chosen;
  options.world_size = static_cast<int32_t>(context_.job.parallel.world_size());
  if (context_.job.user_program && rank == Rank(0)) {
    options.steady_iterations = context_.options.iterations;
  }
  slots_.push_back(std::make_unique<Slot>(Slot{std::move(store), std::move(process), options,
                                               slicer::Recorder(options), OutOfMemoryWatch(rank),
                                               StallWatch(context_.options.stall_timeout_s)}));
  slots_.back()->otherwise = std::move(otherwise);
  return OkStatus();
}

Result<bool> RecordPass::StepSlot(Slot& slot) {
  const RecordTaker see = [&](const channel::Record& record,
                              std::span<const std::byte> payload) -> Result<bool> {
    PRISM_RETURN_IF_ERROR(
        slot.See(record, payload)
            .WithContext(fmt::format("recording rank {}", slot.process->rank().value())));
    return !HasSeenAll(slot);
  };
  PRISM_ASSIGN_OR_RETURN(const RecordTurn turn, TakeRecords(*slot.process, see));
  PRISM_RETURN_IF_ERROR(CheckStore(context_, slot.store.get()));
  if (turn.exited || HasSeenAll(slot)) {
    slot.finished = true;
    PRISM_RETURN_IF_ERROR(FinishSlot(slot));
  } else if (turn.moves > 0) {
    slot.stall_watch.Move();
  } else if (const Status stall =
                 slot.stall_watch.Check(*slot.process, slot.recorder.iterations() - 1);
             !stall.ok()) {
    if (!slot.recorder.has_steady_iterations()) {
      return stall;
    }
    slot.finished = true;
    PRISM_RETURN_IF_ERROR(FinishSlot(slot));
  }
  return turn.records > 0 || turn.exited;
}

// What a program does after the requested iterations is ignored.
Status RecordPass::EndProgram(Slot& slot) {
  if (HasSeenAll(slot) || slot.recorder.has_steady_iterations()) {
    slot.process->Kill();  // a user's program, which would train on
    return OkStatus();
  }
  const Status exit = slot.process->ExitStatus(slot.memory_watch.TailLines(slot.held));
  return exit.ok() ? exit : slot.memory_watch.Explain(exit, slot.held);
}

Status RecordPass::FinishSlot(Slot& slot) {
  const Status end = EndProgram(slot);
  Result<graph::Fragment> fragment = end.ok() ? slot.recorder.Finish() : end;
  const std::optional<int32_t> steps = slot.recorder.period();
  if (!fragment.ok() && slot.otherwise.has_value()) {
    context_.logger.Info("rank {}: alternating steps could not be recorded as one iteration: {}",
                         slot.process->rank().value(), fragment.status().message());
    recorded_.push_back(*std::move(slot.otherwise));
    return OkStatus();
  }
  if (end.code() == StatusCode::kRunFailed && !slot.guessed_from.empty()) {
    slot.values.resize(slot.certain_bytes);
    channel::CountIterationsFrom(slot.recorder.iterations() + 1, &slot.values);  // none is steady
    stopped_.push_back({slot.process->rank(), end, slot.guessed_from, slot.values});
    return OkStatus();
  }
  PRISM_RETURN_IF_ERROR(end);
  if (!fragment.ok() && !steps.has_value()) {
    return Status(fragment.status().code(),
                  fmt::format("recording rank {}: {}; {}", slot.process->rank().value(),
                              fragment.status().message(), slot.process->LastLines()));
  }
  std::optional<RecordedRank> recorded;
  if (fragment.ok()) {
    fragment->startup_seconds = slot.startup_seconds;
    fragment->iteration_seconds = slot.iteration_seconds;
    fragment->torch_version = slot.torch_version;
    channel::CountIterationsFrom(fragment->warmup_iterations, &slot.values);
    recorded = RecordedRank{*std::move(fragment), std::move(slot.values), slot.guessed_from};
  }
  if (slot.recorder.has_looked_less()) {
    context_.logger.Info(
        "rank {} was recorded for {} iterations only, because they have many ops; if something "
        "else recurs less often, mark iterations with a range \"iteration\"",
        slot.process->rank().value(), slot.recorder.iterations());
  }
  if (steps.has_value()) {  // again, with longer iterations
    wanted_.push_front({slot.process->rank(), {.steps = *steps}, std::move(recorded)});
  } else {
    recorded_.push_back(*std::move(recorded));
  }
  return OkStatus();
}

Result<bool> RecordPass::Step() {
  bool busy = false;
  while (!wanted_.empty() && slots_.size() < slot_count_) {
    PRISM_RETURN_IF_ERROR(StartNext());
    busy = true;
  }
  for (const auto& slot : slots_) {
    PRISM_ASSIGN_OR_RETURN(const bool did_something, StepSlot(*slot));
    busy = busy || did_something;
  }
  std::erase_if(slots_, [](const auto& slot) { return slot->finished; });
  return busy;
}

void RecordPass::Wait() {
  if (!slots_.empty()) {
    slots_[waits_++ % slots_.size()]->process->channel().WaitForRecord(kWaitNs);
  }
}

std::vector<Rank> ShareOf(const std::vector<Rank>& ranks, int worker, int workers) {
  std::vector<Rank> share;
  for (size_t i = static_cast<size_t>(worker); i < ranks.size();
       i += static_cast<size_t>(workers)) {
    share.push_back(ranks[i]);
  }
  return share;
}

}  // namespace prism::launch
