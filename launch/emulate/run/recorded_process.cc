// Records arrive in the order in which the program caused them, so a value that was recorded before
// the first guess cannot depend on it, and every later one may: that is all that `speculative`
// says. Values are numbered by iterations from the start, because which iteration is the steady one
// is known only at the end; a program that begins again (RecordKind::kBeginAgain) is recorded anew.
#include "launch/emulate/run/recorded_process.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "shim/channel/value_book.h"

namespace prism::launch {
namespace {

using channel::RecordKind;

constexpr size_t kLargestHeld = 3;  // blocks shown when the device is full

}  // namespace

slicer::RecorderOptions MakeRecorderOptions(const RunContext& context,
                                            Rank rank,
                                            const RecordedLength& length) {
  slicer::RecorderOptions options;
  options.rank = rank;
  options.warmup_iterations = context.job.user_program ? 0 : kBuiltInWarmup;
  options.steps_per_iteration = length.steps;
  options.least_iterations = length.iterations;
  options.chosen = length.chosen;
  options.odd = length.odd;
  options.world_size = static_cast<int32_t>(context.job.parallel.world_size());
  return options;
}

RecordedProcess::RecordedProcess(std::unique_ptr<SandboxProcess> process,
                                 const slicer::RecorderOptions& options)
    : process_(std::move(process)),
      options_(options),
      recorder_(options),
      memory_watch_(options.rank) {
}

Status RecordedProcess::See(const channel::Record& record, std::span<const std::byte> payload) {
  if (record.kind == RecordKind::kBeginAgain) {
    recorder_ = slicer::Recorder(options_);
    startup_seconds_ = 0;
    return OkStatus();
  }
  memory_watch_.See(record, payload);
  SeeMeeting(record, payload);
  PRISM_RETURN_IF_ERROR(recorder_.Consume(record, payload)
                            .WithContext(fmt::format("recording rank {}", options_.rank.value())));
  if (record.kind == RecordKind::kOutOfMemory) {
    held_ = recorder_.Held(kLargestHeld);  // a failing program frees its blocks
  }
  SeeTime(record);
  return OkStatus();
}

// What the rank sent, and was given.
void RecordedProcess::SeeMeeting(const channel::Record& record,
                                 std::span<const std::byte> payload) {
  if (record.kind == RecordKind::kValue && !recorder_.has_steady_iterations()) {
    channel::ValueHead head = record.value;
    head.producer = static_cast<int32_t>(options_.rank.value());
    head.iteration = recorder_.iterations();
    head.speculative = speculative_producers_.empty() ? 0 : 1;
    channel::AppendValue(head, payload, &values_);
  }
  const bool only_looks_for_odd =
      recorder_.has_steady_iterations() && options_.odd != slicer::kNoOdd;
  if (record.kind == RecordKind::kGuess && !only_looks_for_odd) {
    nonspeculative_bytes_ = speculative_producers_.empty() ? values_.size() : nonspeculative_bytes_;
    speculative_producers_.emplace_back(static_cast<uint32_t>(record.guess.producer));
    guessed_ = guessed_ || record.guess.speculative == 0;
  }
}

void RecordedProcess::SeeTime(const channel::Record& record) {
  if (startup_seconds_ == 0 && record.kind == RecordKind::kKernel) {
    startup_seconds_ = watch_.Seconds();
  }
  if (recorder_.iterations() > iterations_) {
    iterations_ = recorder_.iterations();
    const double now = watch_.Seconds();
    iteration_seconds_ = now - iterations_end_;
    iterations_end_ = now;
  }
}

Status RecordedProcess::ExitStatus() const {
  const Status exit = process_->ExitStatus(memory_watch_.TailLines(held_));
  return exit.ok() ? exit : memory_watch_.Explain(exit, held_);
}

std::string RecordedProcess::Values(int32_t steady_iteration) const {
  std::string values = values_;
  channel::CountIterationsFrom(steady_iteration, &values);
  return values;
}

std::string RecordedProcess::NonspeculativeValues() const {
  std::string values = values_.substr(0, nonspeculative_bytes_);
  channel::CountIterationsFrom(recorder_.iterations() + 1, &values);
  return values;
}

void RecordedProcess::ReportStacks(std::string_view doing) {
  fmt::print(stderr, "rank {} {}\n{}", rank().value(), doing, process_->Stacks());
}

void RecordedProcess::AddRealTimes(graph::Fragment* fragment) const {
  fragment->startup_seconds = startup_seconds_;
  fragment->iteration_seconds = iteration_seconds_;
}

}  // namespace prism::launch
