#include "slicer/record/recorder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/job/whole_program.h"
#include "graph/warning_codes.h"
#include "slicer/record/fragment_parts.h"

namespace prism::slicer {

namespace {
using channel::Record;
using channel::RecordKind;
using graph::OpKind;

// In the iterations that are examined for a period.
constexpr int64_t kMaxOpsLookedAt = 250'000;

// Of a program without iterations: half a gigabyte.
constexpr size_t kMaxWholeOps = 16'000'000;

bool IsComputedInBackward(const Record& record) {
  return (record.flags & channel::kInBackward) != 0 &&
         (record.kind == RecordKind::kKernel || record.kind == RecordKind::kMatmul);
}

// What odd iterations write counts as well.
bool CountsFiles(const Record& record, const Definitions& definitions) {
  if (record.kind != RecordKind::kCounter) {
    return false;
  }
  const Result<std::string> name =
      definitions.Name(channel::Table::kCounterName, record.counter.name);
  return name.ok() && *name == "file_bytes_written";
}

}  // namespace

Recorder::Recorder(const RecorderOptions& options)
    : options_(options),
      stream_(options.rank, 0, options.steps_per_iteration),
      early_(options.rank),
      search_(options.chosen) {
}

bool Recorder::complete() const {
  if (!steady_iteration().has_value()) {
    return stream_.iteration() >= kMaxIterations;
  }
  return iterations() >=
         std::max(options_.least_iterations, *std::ranges::max_element(options_.odd) + 1);
}

std::optional<int32_t> Recorder::period() const {
  if (!steady_iteration().has_value() || search_.varies()) {
    return FindPeriod(last_);
  }
  return LooksForPeriod() ? sequence_.Period() : std::nullopt;
}

bool Recorder::has_steady_iterations() const {
  if (!steady_iteration().has_value()) {
    return false;
  }
  return options_.steady_iterations.has_value()
             ? iterations() >= *steady_iteration() + *options_.steady_iterations
             : options_.odd != kNoOdd && iterations() >= options_.least_iterations;
}

bool Recorder::has_looked_for_period() const {
  return has_steady_iterations() &&
         (!LooksForPeriod() || !sequence_.MayShowPeriod() || ops_looked_at_ >= kMaxOpsLookedAt);
}

bool Recorder::has_looked_less() const {
  return LooksForPeriod() && sequence_.MayShowPeriod() && ops_looked_at_ >= kMaxOpsLookedAt;
}

Status Recorder::Consume(const Record& record, std::span<const std::byte> payload) {
  const bool is_only_looked_at = has_steady_iterations();
  const int32_t before = stream_.iteration();
  const bool marks_are_put_in = !stream_.marked_by_program();
  PRISM_ASSIGN_OR_RETURN(const std::span<const PlacedOp> ops, stream_.Push(record, payload));
  if (stream_.iteration() != before) {
    // The last op may be the inserted end marker; it belongs to the previous iteration.
    for (const PlacedOp& placed : ops) {
      if (placed.place.iteration == before) {
        KeepOp(placed);
      }
    }
    current_.tables = stream_.previous_tables();
    EndIteration();
    if (marks_are_put_in && !is_only_looked_at) {
      memory_.EndIteration();
    }
    if (!stream_.marked_by_program() && !is_only_looked_at) {
      memory_.BeginIteration();
    }
  }
  for (const PlacedOp& placed : ops) {
    if (placed.place.iteration == stream_.iteration()) {
      KeepOp(placed);
    }
  }
  if (record.kind == RecordKind::kElapsed) {
    ForgetWaitsToMeasure();
  }
  if (options_.steps_per_iteration == graph::kWholeProgram && current_.ops.size() > kMaxWholeOps) {
    return RunFailed(fmt::format(
        "a program without iterations that makes more than {} calls is too long to be timed as a "
        "whole; mark what repeats with a range \"{}\" (torch.profiler.record_function)",
        FormatCount(static_cast<int64_t>(kMaxWholeOps)), kIterationMarker));
  }
  current_.backward_kernels += stream_.iteration() >= 0 && IsComputedInBackward(record) ? 1 : 0;
  if (is_only_looked_at) {
    return CountsFiles(record, stream_.definitions()) ? ConsumeCounter(record.counter) : OkStatus();
  }
  if (!steady_iteration().has_value()) {
    CountEarly(record);
  }
  if (stream_.iteration() >= options_.warmup_iterations) {
    host_.Add(record, stream_.iteration());
  }
  rounds_.See(record);
  used_device_ = used_device_ || record.kind == RecordKind::kKernel ||
                 record.kind == RecordKind::kMatmul || record.kind == RecordKind::kMemcpy ||
                 record.kind == RecordKind::kCollective;
  if (record.kind != RecordKind::kOutsideAlloc || CountsOutside()) {
    PRISM_RETURN_IF_ERROR(memory_.Push(record, stream_.definitions()));
  }
  switch (record.kind) {
    case RecordKind::kCounter:
      return ConsumeCounter(record.counter);
    case RecordKind::kOutOfMemory:
      return ConsumeOutOfMemory(record);
    default:
      return OkStatus();
  }
}

Status Recorder::ConsumeCounter(const channel::CounterBody& body) {
  PRISM_ASSIGN_OR_RETURN(const std::string name,
                         stream_.definitions().Name(channel::Table::kCounterName, body.name));
  const size_t colon = std::min(name.find(':'), name.size());
  counters_[name.substr(0, colon)][colon < name.size() ? name.substr(colon + 1) : ""] = body.count;
  return OkStatus();
}

Status Recorder::ConsumeOutOfMemory(const Record& record) {
  PRISM_ASSIGN_OR_RETURN(const FrameworkContext context,
                         stream_.definitions().Context(record.context));
  out_of_memory_ =
      fmt::format("{} bytes in {} with {} bytes of the device in use", record.segment.bytes,
                  context.op.empty() ? "no framework op" : DescribeContext(context),
                  record.segment.device_used_bytes);
  return OkStatus();
}

void Recorder::CountEarly(const Record& record) {
  if (record.kind == RecordKind::kCollective) {
    early_.AddCollective(record.collective, stream_.communicator(record.collective.comm),
                         stream_.iteration());
  } else if (record.kind == RecordKind::kPeerTransfer) {
    early_.AddTransfer(record, stream_.communicator(record.peer.comm));
  } else if (record.kind == RecordKind::kGroupEnd) {
    early_.EndGroup(record.thread, stream_.iteration());
  }
}

void Recorder::KeepOp(const PlacedOp& placed) {
  if (placed.waits_late) {
    current_.late_waits.push_back(static_cast<uint32_t>(current_.ops.size()));
  }
  current_.ops.push_back(placed.op);
  if (current_.closed == 0 && !stream_.inside_iteration()) {
    current_.closed = static_cast<uint32_t>(current_.ops.size());
  }
}

Result<int32_t> Recorder::EndRound(int32_t left) {
  left_out_ = std::max(left_out_, 0);
  if (!rounds_.End(current_, stream_.tables().strings, memory_.allocated()) || left <= 0) {
    return 0;
  }
  PRISM_ASSIGN_OR_RETURN(const std::span<const PlacedOp> ops,
                         stream_.Repeat(rounds_.before(current_), rounds_.last(current_), left));
  current_.ops.reserve(current_.ops.size() + ops.size());
  for (const PlacedOp& placed : ops) {
    KeepOp(placed);
  }
  for (const Record& record : rounds_.counted()) {
    for (int32_t round = 0; round < left; ++round) {
      PRISM_RETURN_IF_ERROR(CountAgain(record));
    }
  }
  rounds_ = Rounds();
  left_out_ = left;
  return left;
}

// What Consume counts of a record beside its op.
Status Recorder::CountAgain(const Record& record) {
  current_.backward_kernels += IsComputedInBackward(record) ? 1 : 0;
  if (record.kind == RecordKind::kCollective) {
    PRISM_RETURN_IF_ERROR(stream_.AddBackwardSum(record));
  }
  if (!steady_iteration().has_value()) {
    CountEarly(record);
  }
  if (stream_.iteration() >= options_.warmup_iterations) {
    host_.Add(record, stream_.iteration());
  }
  return OkStatus();
}

// The host waited for events to read the time between them, as DistributedDataParallel does in its
// first ten steps and every hundredth: what it does next does not depend on them.
void Recorder::ForgetWaitsToMeasure() {
  size_t behind = current_.ops.size();
  while (behind > 0 && current_.ops[behind - 1].kind == OpKind::kEventSync) {
    --behind;
  }
  std::erase_if(current_.late_waits, [&](uint32_t op) { return op >= behind; });
}

// The current iteration is complete: does it equal the previous one?
void Recorder::EndIteration() {
  const int32_t number = stream_.iteration() - 1;
  followed_ = stream_.iteration();
  rounds_ = Rounds();
  if (left_out_ >= 0) {
    fewest_left_out_ = std::min(fewest_left_out_.value_or(left_out_), left_out_);
    left_out_ = -1;
  }
  if (number < options_.warmup_iterations) {
    current_ = Iteration();
  }
  if (current_.ops.empty() || (!steady_iteration().has_value() && number >= kMaxIterations)) {
    return;
  }
  if (!steady_iteration().has_value()) {
    search_.Add(number, current_);
    if (steady_iteration().has_value()) {
      last_.clear();
      stream_.SettleRule();
    }
  }
  const Iteration ended = std::exchange(current_, Iteration());
  ops_looked_at_ += static_cast<int64_t>(ended.ops.size());
  // Irregular ones are reported by the rank that is examined for longer.
  if (!steady_iteration().has_value() || options_.least_iterations == 0) {
    sequence_.Add(number, ended);
  }
  KeepIfOdd(number, ended);
  if (steady_iteration().has_value()) {
    return;
  }
  if (stream_.marked_by_program()) {
    last_.clear();
  } else if (options_.steps_per_iteration == 1) {
    KeepLast(ended);
  }
}

// The first of its kind after the steady one, or one that was asked for.
void Recorder::KeepIfOdd(int32_t number, const Iteration& ended) {
  const bool is_first = options_.least_iterations == 0 && steady_iteration().has_value() &&
                        number > *steady_iteration() && odd_recorded_.size() < kMaxOddKinds &&
                        sequence_.IsFirstOfOddKind(*steady_iteration());
  if (is_first || std::ranges::count(options_.odd, number) > 0) {
    DropSegments(&odd_recorded_.emplace(number, ended).first->second);
  }
}

void Recorder::KeepLast(const Iteration& ended) {
  if (last_.size() == 2 * size_t{kMaxStepsInTurn}) {
    last_.erase(last_.begin());
  }
  last_.push_back(WithoutWaits(ended));
}

// Why no two consecutive iterations do the same, and what the user can do about it.
std::string Recorder::WhyAllDiffer() const {
  std::string message = search_.difference() + "; no two iterations in a row are the same";
  if (search_.only_order_differs()) {
    return message +
           ", except in the order of their ops; a schedule that changes the order each time (say, "
           "by a set of addresses) cannot be recorded; give it a fixed order";
  }
  if (!complete()) {
    message += fmt::format(" among the {} that the program ran; let it run more steps, up to {}",
                           iterations(), kMaxIterations);
  }
  if (!stream_.marked_by_program()) {
    message += fmt::format(
        "; if an iteration is not one optimizer step, mark it with a range \"{}\" "
        "(torch.profiler.record_function)",
        kIterationMarker);
  }
  return message;
}

std::string Recorder::WhyNone() const {
  if (!search_.difference().empty()) {
    return WhyAllDiffer();
  }
  std::string message = fmt::format("rank {} ran {}; at least {} are needed", options_.rank.value(),
                                    FormatCounted(iterations(), "complete iteration"),
                                    options_.warmup_iterations + 2);
  if (stream_.iteration() < 0) {
    message += fmt::format(
        "; it stepped no torch optimizer and marked no range \"{}\" "
        "(torch.profiler.record_function, nvtxRangePush), which tell iterations apart",
        kIterationMarker);
  } else if (used_device_ && out_of_memory_.empty()) {
    message += "; let it run for more";
  }
  if (options_.rank != Rank(0)) {
    message +=
        "; if it resumed from what it saved while another rank was recorded, let each rank start "
        "from scratch";
  }
  if (!used_device_) {
    message += "; it issued nothing to a CUDA device";
  }
  if (!out_of_memory_.empty()) {
    message += "; the device refused " + out_of_memory_;
  }
  return message;
}

// The program has exited or was given up: what was recorded must suffice. Its very last iteration
// is followed by the end of the program, not by the transition to another iteration.
Status Recorder::FindSteady() {
  if (options_.steps_per_iteration == graph::kWholeProgram && !current_.ops.empty()) {
    current_.tables = stream_.tables();
    search_.TakeWhole(std::exchange(current_, Iteration()));
  }
  if (!steady_iteration().has_value() && !complete()) {
    current_.tables = stream_.tables();
    if (current_.closed != 0) {
      search_.AddUnfinished(stream_.iteration(), current_);
    }
  }
  const bool saw_all = complete();
  return search_.Settle(saw_all) ? OkStatus() : RunFailed(WhyNone());
}

// One warning for all of one code, with the most frequent detail.
graph::Warning Recorder::MakeWarning(const std::string& code, const Details& details) const {
  graph::Warning warning = {.code = code, .count = 0, .example = ""};
  int64_t most = 0;
  for (const auto& [detail, count] : details) {
    warning.count += count;
    if (count > most) {
      most = count;
      warning.example =
          fmt::format("rank {}{}{}", options_.rank.value(), detail.empty() ? "" : ": ", detail);
    }
  }
  return warning;
}

std::vector<graph::Warning> Recorder::Warnings(const OddIterations& odd) const {
  std::vector<graph::Warning> warnings = memory_.Warnings();
  for (const auto& [code, details] : counters_) {
    if (code == graph::kStandIn) {  // each file by itself
      for (const auto& [detail, count] : details) {
        warnings.push_back({.code = code, .count = count, .example = detail});
      }
    } else {
      warnings.push_back(MakeWarning(code, details));
    }
  }
  if (!odd.numbers.empty()) {
    warnings.push_back({.code = "odd_iteration",
                        .count = static_cast<int64_t>(odd.numbers.size()),
                        .example = odd.text});
  }
  if (search_.late_waits() > 0) {
    warnings.push_back({.code = "waits_across_iterations",
                        .count = search_.late_waits(),
                        .example = fmt::format("rank {}: communication of the iteration before "
                                               "that this one waits for counts as already over: {}",
                                               options_.rank.value(), search_.late_wait())});
  }
  if (search_.unsteady_segments() > 0) {
    warnings.push_back({.code = "segments_not_steady",
                        .count = search_.unsteady_segments(),
                        .example = fmt::format("rank {} still takes device memory after warm-up",
                                               options_.rank.value())});
  }
  if (const auto& work = search_.first_time_work(); work.has_value()) {
    warnings.push_back(
        {.code = "first_time_work_left_out",
         .count = work->ops,
         .example = fmt::format("rank {}: the program ended after iteration {}, which stands for "
                                "all: the one before does the same and, once, {}",
                                options_.rank.value(), *steady_iteration(), work->text)});
  }
  if (search_.varies()) {
    warnings.push_back(
        {.code = "iterations_vary",
         .count = iterations(),
         .example = fmt::format("rank {}: iteration {} stands for all; {}", options_.rank.value(),
                                *steady_iteration(), search_.difference())});
  }
  std::ranges::sort(warnings, [](const auto& a, const auto& b) { return a.code < b.code; });
  return warnings;
}

Result<graph::Fragment> Recorder::MakeFragment(const Iteration& iteration) const {
  graph::Fragment fragment;
  fragment.rank = options_.rank;
  PRISM_ASSIGN_OR_RETURN(fragment.comm_slots,
                         MakeCommunicators(iteration.tables, options_.world_size));
  fragment.program = MakeProgram(iteration);
  fragment.strings = iteration.tables.strings;
  fragment.signatures = iteration.tables.signatures;
  fragment.peer_slots = iteration.tables.peer_slots;
  return fragment;
}

Result<graph::Fragment> Recorder::Finish() {
  PRISM_RETURN_IF_ERROR(FindSteady());
  PRISM_ASSIGN_OR_RETURN(graph::Fragment fragment, MakeFragment(search_.iteration()));
  fragment.memory = memory_.Profile(stream_.definitions(), *steady_iteration());
  odd_ = sequence_.OddOnes(*steady_iteration(), options_.rank, !has_looked_for_period());
  fragment.warnings = Warnings(odd_);
  fragment.host_times = host_.times(*steady_iteration());
  fragment.framework_modules = stream_.definitions().Names(channel::Table::kFramework);
  fragment.warmup_iterations = *steady_iteration();
  fragment.iterations = std::max(iterations(), *steady_iteration() + 1);
  fragment.varies = search_.varies();
  fragment.odd_iterations = odd_.numbers;
  fragment.iteration_begin = stream_.iteration_begin();
  fragment.steps_per_iteration = options_.steps_per_iteration;
  fragment.rounds_left_out = fewest_left_out_.value_or(0);
  early_.MoveInto(*steady_iteration() + 1, &fragment);
  return fragment;
}

std::vector<graph::Fragment> Recorder::OddFragments(const graph::Fragment& steady) const {
  std::vector<graph::Fragment> fragments;
  for (const auto& [number, iteration] : odd_recorded_) {
    Result<graph::Fragment> fragment = MakeFragment(iteration);
    if (fragment.ok()) {  // else its rank lacks it
      fragment->memory = steady.memory;
      fragment->warmup_iterations = number;
      fragments.push_back(*std::move(fragment));
    }
  }
  return fragments;
}

}  // namespace prism::slicer
