// Records arrive in the order in which the program caused them, so a value that was recorded before
// the first guess cannot depend on it, and every later one may: that is all that `speculative`
// says. Values are numbered by iterations from the start, because which iteration is the steady one
// is known only at the end; a program that begins again (RecordKind::kBeginAgain) is recorded anew.
#include "launch/emulate/run/recorded_process.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
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
    later_ = {};
    followed_ = 0;
    odd_seen_ = 0;
    startup_seconds_ = 0;
    return OkStatus();
  }
  if (record.kind == RecordKind::kRound) {
    PRISM_ASSIGN_OR_RETURN(const int32_t skipped, recorder_.EndRound(record.round.left));
    process_->channel().Reply(record.round.request, {0, 0, skipped});
    return OkStatus();
  }
  memory_watch_.See(record, payload);
  SeeMeeting(record, payload);
  PRISM_RETURN_IF_ERROR(recorder_.Consume(record, payload)
                            .WithContext(fmt::format("recording rank {}", options_.rank.value())));
  if (record.kind == RecordKind::kOutOfMemory) {
    held_ = recorder_.Held(kLargestHeld);  // a failing program frees its blocks
  }
  TakeIfOdd();
  SeeTime(record);
  return OkStatus();
}

// Once the steady iterations are recorded, only what belongs to odd ones counts, which is known
// when they end.
void RecordedProcess::SeeMeeting(const channel::Record& record,
                                 std::span<const std::byte> payload) {
  Met met;
  if (record.kind == RecordKind::kValue) {
    channel::ValueHead head = record.value;
    head.producer = static_cast<int32_t>(options_.rank.value());
    head.iteration = recorder_.iterations();
    head.speculative =
        speculative_producers_.empty() && later_.speculative_producers.empty() ? 0 : 1;
    channel::AppendValue(head, payload, &met.values);
  } else if (record.kind == RecordKind::kGuess) {
    met.speculative_producers.emplace_back(static_cast<uint32_t>(record.guess.producer));
    met.guessed = record.guess.speculative == 0;
  } else {
    return;
  }
  if (!recorder_.has_steady_iterations()) {
    Take(std::move(met));
    return;
  }
  later_.values += met.values;
  std::ranges::copy(met.speculative_producers, std::back_inserter(later_.speculative_producers));
  later_.guessed = later_.guessed || met.guessed;
}

void RecordedProcess::Take(Met met) {
  if (!met.speculative_producers.empty() && speculative_producers_.empty()) {
    nonspeculative_bytes_ = values_.size();
  }
  values_ += met.values;
  std::ranges::copy(met.speculative_producers, std::back_inserter(speculative_producers_));
  guessed_ = guessed_ || met.guessed;
}

// After a record: the iteration that ran may have ended with it.
void RecordedProcess::TakeIfOdd() {
  if (recorder_.followed() == followed_) {
    return;
  }
  followed_ = recorder_.followed();
  Met met = std::exchange(later_, {});
  if (recorder_.odd_recorded() > odd_seen_) {
    odd_seen_ = recorder_.odd_recorded();
    Take(std::move(met));
    channel::MarkOdd(followed_ - 1, &values_);
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
