#include "slicer/record/recorder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "slicer/record/memory_tracker.h"
#include "slicer/record/op_stream.h"

namespace prism::slicer {

namespace {

using channel::Record;
using channel::RecordKind;
using graph::OpKind;

// One iteration as recorded. `closed` counts the ops up to its end marker; what follows belongs to
// the way to the next iteration, or, after the last one, to the end of the program.
struct Iteration {
  std::vector<CanonicalOp> ops;
  OpTables tables;
  uint32_t closed = 0;
};

bool IsSegmentOp(const CanonicalOp& op) {
  return op.kind == OpKind::kSegmentAlloc || op.kind == OpKind::kSegmentFree;
}

// The iteration without its segment ops.
void DropSegmentOps(Iteration* iteration) {
  std::vector<uint32_t> new_index;
  std::vector<CanonicalOp> kept;
  uint32_t closed = 0;
  for (size_t i = 0; i < iteration->ops.size(); ++i) {
    CanonicalOp op = iteration->ops[i];
    new_index.push_back(static_cast<uint32_t>(kept.size()));
    if (IsSegmentOp(op)) {
      continue;
    }
    if (op.dep != graph::kNoDep) {
      op.dep = new_index[op.dep];
    }
    kept.push_back(op);
    closed = i < iteration->closed ? static_cast<uint32_t>(kept.size()) : closed;
  }
  iteration->ops = std::move(kept);
  iteration->closed = closed;
}

std::string DescribeAt(const Iteration& iteration, size_t index) {
  return index < iteration.ops.size() ? DescribeOp(iteration.ops[index], iteration.tables)
                                      : "nothing (the iteration is over)";
}

// Index of the first op that differs within `count` ops; nothing when none does. Ids alone decide
// where the tables are the same; else what they stand for does.
std::optional<size_t> FirstDifference(const Iteration& a, const Iteration& b, size_t count) {
  const bool same_tables = a.tables == b.tables;
  for (size_t i = 0; i < count; ++i) {
    if (i >= a.ops.size() || i >= b.ops.size() || a.ops[i] != b.ops[i] ||
        (!same_tables && DescribeOp(a.ops[i], a.tables) != DescribeOp(b.ops[i], b.tables))) {
      return i;
    }
  }
  return std::nullopt;
}

graph::Program MakeProgram(const Iteration& iteration) {
  graph::Program program;
  for (const CanonicalOp& op : iteration.ops) {
    program.Append(op);
  }
  program.collectives = iteration.tables.collectives;
  program.peer_groups = iteration.tables.peer_groups;
  program.stream_count = iteration.tables.stream_count;
  program.comm_slot_count = static_cast<uint16_t>(iteration.tables.comm_slots.size());
  program.peer_slot_count = static_cast<uint16_t>(iteration.tables.peer_slots.size());
  return program;
}

Result<std::vector<graph::FragmentCommunicator>> MakeCommunicators(const OpTables& tables) {
  std::vector<graph::FragmentCommunicator> communicators;
  for (const RecordedCommunicator& comm : tables.comm_slots) {
    if (!comm.members_known) {
      return RunFailed(fmt::format(
          "the members of process group \"{}\" ({} ranks) are unknown: the framework named no "
          "start and stride of global ranks for it when its communicator was made",
          comm.name.empty() ? "unnamed" : comm.name, comm.size));
    }
    graph::FragmentCommunicator made = {.name = comm.name, .members = comm.members};
    std::sort(made.members.begin(), made.members.end());
    communicators.push_back(std::move(made));
  }
  return communicators;
}

}  // namespace

class Recorder::Impl {
 public:
  explicit Impl(const RecorderOptions& options) : options_(options), stream_(options.rank) {}

  Status Consume(const Record& record, std::span<const std::byte> payload);
  Result<graph::Fragment> Finish();

  [[nodiscard]] bool complete() const {
    return stream_.iteration() >= options_.warmup_iterations + options_.recorded_iterations;
  }

  [[nodiscard]] HeldMemory Held(size_t largest) const {
    return memory_.Held(stream_.definitions(), largest);
  }

 private:
  Status ConsumeCounter(const channel::CounterBody& body);
  Status ConsumeOutOfMemory(const Record& record);
  void KeepOp(const PlacedOp& placed);
  [[nodiscard]] bool IsRecorded(int32_t iteration) const;
  [[nodiscard]] Status CheckCount() const;
  Status CheckIdentical();
  [[nodiscard]] Status Compare(const Iteration& first, size_t index) const;
  [[nodiscard]] std::vector<graph::Warning> Warnings() const;

  RecorderOptions options_;
  OpStream stream_;
  MemoryTracker memory_;
  std::vector<Iteration> recorded_;
  std::map<std::string, int64_t> counters_;
  int64_t unsteady_segments_ = 0;
  std::string out_of_memory_;  // the last refused allocation, "" if none
};

bool Recorder::Impl::IsRecorded(int32_t iteration) const {
  return iteration >= options_.warmup_iterations &&
         iteration < options_.warmup_iterations + options_.recorded_iterations;
}

Status Recorder::Impl::Consume(const Record& record, std::span<const std::byte> payload) {
  const int32_t before = stream_.iteration();
  PRISM_ASSIGN_OR_RETURN(const std::span<const PlacedOp> ops, stream_.Push(record, payload));
  if (stream_.iteration() != before && IsRecorded(before)) {
    recorded_.back().tables = stream_.previous_tables();
  }
  for (const PlacedOp& placed : ops) {
    KeepOp(placed);
  }
  PRISM_RETURN_IF_ERROR(memory_.Push(record, stream_.definitions()));
  switch (record.kind) {
    case RecordKind::kCounter:
      return ConsumeCounter(record.counter);
    case RecordKind::kOutOfMemory:
      return ConsumeOutOfMemory(record);
    default:
      return OkStatus();
  }
}

Status Recorder::Impl::ConsumeCounter(const channel::CounterBody& body) {
  PRISM_ASSIGN_OR_RETURN(const std::string name,
                         stream_.definitions().Name(channel::Table::kCounterName, body.name));
  counters_[name] = body.count;
  return OkStatus();
}

Status Recorder::Impl::ConsumeOutOfMemory(const Record& record) {
  PRISM_ASSIGN_OR_RETURN(const FrameworkContext context,
                         stream_.definitions().Context(record.context));
  out_of_memory_ =
      fmt::format("{} bytes in {} with {} bytes of the device in use", record.segment.bytes,
                  context.op.empty() ? "no framework op" : DescribeContext(context),
                  record.segment.device_used_bytes);
  return OkStatus();
}

void Recorder::Impl::KeepOp(const PlacedOp& placed) {
  if (!IsRecorded(placed.place.iteration)) {
    return;
  }
  if (placed.place.index == 0) {
    recorded_.emplace_back();
  }
  Iteration& iteration = recorded_.back();
  iteration.ops.push_back(placed.op);
  if (iteration.closed == 0 && !stream_.inside_iteration()) {
    iteration.closed = static_cast<uint32_t>(iteration.ops.size());
  }
}

Status Recorder::Impl::CheckCount() const {
  const auto wanted = static_cast<size_t>(options_.recorded_iterations);
  if (recorded_.size() == wanted && recorded_.back().closed > 0) {
    return OkStatus();
  }
  std::string message =
      fmt::format("rank {} ran {} complete iterations, {} to warm up and {} to record are needed",
                  options_.rank.value(), stream_.iteration() + (stream_.inside_iteration() ? 0 : 1),
                  options_.warmup_iterations, options_.recorded_iterations);
  if (stream_.iteration() < 0) {
    message += fmt::format("; it marked none by a range named \"{}\"", kIterationMarker);
  }
  if (!out_of_memory_.empty()) {
    message += "; the device refused " + out_of_memory_;
  }
  return RunFailed(message);
}

// The caching allocator may still take or give back a segment in one recorded iteration and not in
// the next; such ops are no part of the steady state.
Status Recorder::Impl::CheckIdentical() {
  const Iteration& first = recorded_.front();
  const bool same_segments =
      std::all_of(recorded_.begin(), recorded_.end(), [&](const Iteration& other) {
        return std::count_if(first.ops.begin(), first.ops.end(), IsSegmentOp) ==
               std::count_if(other.ops.begin(), other.ops.end(), IsSegmentOp);
      });
  if (!same_segments) {
    for (Iteration& iteration : recorded_) {
      const auto before = static_cast<int64_t>(iteration.ops.size());
      DropSegmentOps(&iteration);
      unsteady_segments_ += before - static_cast<int64_t>(iteration.ops.size());
    }
  }
  for (size_t i = 1; i < recorded_.size(); ++i) {
    PRISM_RETURN_IF_ERROR(Compare(recorded_.front(), i));
  }
  return OkStatus();
}

Status Recorder::Impl::Compare(const Iteration& first, size_t index) const {
  const Iteration& other = recorded_[index];
  const int32_t other_number = options_.warmup_iterations + static_cast<int32_t>(index);
  const bool is_last = stream_.iteration() == other_number;
  // After the last iteration of all comes the end of the program, not the way to the next one.
  const size_t count =
      is_last ? std::max(first.closed, other.closed) : std::max(first.ops.size(), other.ops.size());
  const std::optional<size_t> difference = FirstDifference(first, other, count);
  if (!difference.has_value()) {
    return OkStatus();
  }
  return RunFailed(fmt::format("rank {}: iterations {} and {} differ at op {}: {} against {}",
                               options_.rank.value(), options_.warmup_iterations, other_number,
                               *difference, DescribeAt(first, *difference),
                               DescribeAt(other, *difference)));
}

std::vector<graph::Warning> Recorder::Impl::Warnings() const {
  std::vector<graph::Warning> warnings = memory_.Warnings();
  for (const auto& [name, count] : counters_) {
    warnings.push_back(
        {.code = name, .count = count, .example = fmt::format("rank {}", options_.rank.value())});
  }
  if (unsteady_segments_ > 0) {
    warnings.push_back({.code = "segments_not_steady",
                        .count = unsteady_segments_,
                        .example = fmt::format("rank {} still takes device memory after warm-up",
                                               options_.rank.value())});
  }
  std::sort(warnings.begin(), warnings.end(),
            [](const auto& a, const auto& b) { return a.code < b.code; });
  return warnings;
}

Result<graph::Fragment> Recorder::Impl::Finish() {
  PRISM_RETURN_IF_ERROR(CheckCount());
  if (IsRecorded(stream_.iteration())) {
    recorded_.back().tables = stream_.tables();
  }
  PRISM_RETURN_IF_ERROR(CheckIdentical());
  Iteration& kept = recorded_.front();
  if (recorded_.size() == 1 && IsRecorded(stream_.iteration())) {
    kept.ops.resize(kept.closed);
  }
  graph::Fragment fragment;
  fragment.rank = options_.rank;
  PRISM_ASSIGN_OR_RETURN(fragment.comm_slots, MakeCommunicators(kept.tables));
  fragment.program = MakeProgram(kept);
  fragment.strings = kept.tables.strings;
  fragment.signatures = kept.tables.signatures;
  fragment.peer_slots = kept.tables.peer_slots;
  fragment.memory = memory_.Profile(stream_.definitions(), options_.warmup_iterations);
  fragment.warnings = Warnings();
  return fragment;
}

Recorder::Recorder(const RecorderOptions& options) : impl_(std::make_unique<Impl>(options)) {
}

Recorder::~Recorder() = default;
Recorder::Recorder(Recorder&&) noexcept = default;
Recorder& Recorder::operator=(Recorder&&) noexcept = default;

Status Recorder::Consume(const Record& record, std::span<const std::byte> payload) {
  return impl_->Consume(record, payload);
}

bool Recorder::complete() const {
  return impl_->complete();
}

HeldMemory Recorder::Held(size_t largest) const {
  return impl_->Held(largest);
}

Result<graph::Fragment> Recorder::Finish() {
  return impl_->Finish();
}

}  // namespace prism::slicer
