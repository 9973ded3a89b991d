#include "slicer/record/memory_tracker.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/units.h"
#include "slicer/record/op_stream.h"

namespace prism::slicer {

// The part of an iteration that a marker names, by its first word: "forward", "recompute",
// "backward", "optimizer". Everything else is kOther.
enum class Phase : uint8_t { kOther, kForward, kRecompute, kBackward, kOptimizer };

namespace {

using channel::RecordKind;
using channel::Table;

// Markers that the workload opens while it allocates what they name, and the class they mean.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kNamedClasses = {{
    {"parameters", "parameters"},
    {"gradients", "gradients"},
    {"optimizer state", "optimizer"},
    {"buffers", "buffers"},
    {"activations", "activations"},
}};

// Order of the classes in a profile.
constexpr std::array<std::string_view, 6> kClassOrder = {"parameters",  "gradients",   "optimizer",
                                                         "activations", "temporaries", "buffers"};

Phase PhaseOfMarker(const std::string& name) {
  const std::string_view word = std::string_view(name).substr(0, name.find_first_of(" :_-/."));
  if (word == "forward") {
    return Phase::kForward;
  }
  if (word == "recompute") {
    return Phase::kRecompute;
  }
  if (word == "backward") {
    return Phase::kBackward;
  }
  return word == "optimizer" || word == "Optimizer" ? Phase::kOptimizer : Phase::kOther;
}

Phase PhaseOfPath(const std::vector<std::string>& path) {
  for (auto name = path.rbegin(); name != path.rend(); ++name) {
    const Phase phase = PhaseOfMarker(*name);
    if (phase != Phase::kOther) {
      return phase;
    }
  }
  return Phase::kOther;
}

uint32_t FirstAfter(const std::vector<uint32_t>& moments, uint32_t moment, uint32_t none) {
  const auto found = std::upper_bound(moments.begin(), moments.end(), moment);
  return found == moments.end() ? none : *found;
}

}  // namespace

Status MemoryTracker::Push(const channel::Record& record, const Definitions& definitions) {
  has_framework_ = has_framework_ || record.context != 0;
  switch (record.kind) {
    case RecordKind::kBlockAlloc:
      return PushBlockAlloc(record, definitions);
    case RecordKind::kBlockFree:
      return PushBlockFree(record);
    case RecordKind::kMatmul:
      workspaces_.SeeProduct(record);
      return OkStatus();
    case RecordKind::kMarker:
      return PushMarker(record.marker, definitions);
    case RecordKind::kCommInit:
      return PushCommInit(record.comm_init, definitions);
    case RecordKind::kOutsideAlloc:
      return PushOutside(record.outside, definitions);
    case RecordKind::kSegmentAlloc:
      foreign_.TakeSegment(record.segment.address, record.segment.bytes);
      PushSegment(record.segment.bytes);
      HashLayout(2, record.segment.address, record.segment.bytes);
      return OkStatus();
    case RecordKind::kSegmentFree:
      foreign_.GiveSegments(record.segment.address, record.segment.bytes);
      PushSegment(-record.segment.bytes);
      HashLayout(3, record.segment.address, record.segment.bytes);
      return OkStatus();
    case RecordKind::kAllocatorStats:
      PushStats(record.stats);
      return OkStatus();
    default:
      return OkStatus();
  }
}

Status MemoryTracker::PushBlockAlloc(const channel::Record& record,
                                     const Definitions& definitions) {
  const channel::SegmentBody& body = record.segment;
  const auto index = static_cast<uint32_t>(blocks_.size());
  if (body.bytes < 0 || !live_.emplace(body.address, index).second) {
    return RunFailed(fmt::format(
        "the shim's stream is damaged: a block of {} bytes was allocated over a live one",
        body.bytes));
  }
  foreign_.SeeBlock(body.address, body.bytes);
  HashLayout(0, body.address, body.bytes);
  const bool in_backward = (record.flags & channel::kInBackward) != 0;
  SeePass(in_backward);
  workspaces_.SeeBlock(index, record, definitions);
  blocks_.push_back({.bytes = body.bytes,
                     .born = ++moment_,
                     .context = record.context,
                     .path = path_,
                     .in_backward = in_backward});
  allocated_ += body.bytes;
  for (Peak* peak : {&peak_, training_peak_ ? &*training_peak_ : nullptr}) {
    if (peak != nullptr && IsPeak(*peak)) {
      *peak = {allocated_, moment_, index};
    }
  }
  return OkStatus();
}

// Of equal peaks the first inside an iteration: there it is known what each block is for.
bool MemoryTracker::IsPeak(const Peak& peak) const {
  const bool is_first_inside =
      !iteration_begins_.empty() && peak.moment <= iteration_begins_.front();
  return allocated_ > peak.bytes || (allocated_ == peak.bytes && is_first_inside);
}

// If a program does not name its passes, a forward pass ends at the first block of a backward one.
void MemoryTracker::SeePass(bool in_backward) {
  if (in_backward && !in_backward_) {
    BeginTraining();
    if (!names_forward_) {
      forward_ends_.push_back(++moment_);
    }
  }
  in_backward_ = in_backward;
}

void MemoryTracker::BeginTraining() {
  if (!training_peak_.has_value()) {
    training_peak_ = {allocated_, moment_, kNever};
  }
}

Status MemoryTracker::PushBlockFree(const channel::Record& record) {
  const auto live = live_.find(record.segment.address);
  if (live == live_.end()) {
    ++orphans_;
    return OkStatus();
  }
  SeePass((record.flags & channel::kInBackward) != 0);
  Block& block = blocks_[live->second];
  block.died = ++moment_;
  allocated_ -= block.bytes;
  HashLayout(1, record.segment.address, block.bytes);
  live_.erase(live);
  return OkStatus();
}

Status MemoryTracker::PushMarker(const channel::MarkerBody& body, const Definitions& definitions) {
  PRISM_ASSIGN_OR_RETURN(const std::string name, definitions.Name(Table::kMarkerName, body.name));
  ++moment_;
  if (body.begin != 0) {
    BeginMarker(name);
  } else {
    EndMarker(name);
  }
  path_ = PathIndex();
  return OkStatus();
}

void MemoryTracker::EndIteration() {
  EndMarker(kIterationMarker);
}

void MemoryTracker::BeginIteration() {
  BeginMarker(kIterationMarker);
  ++moment_;
  path_ = PathIndex();
}

void MemoryTracker::BeginMarker(const std::string& name) {
  open_.push_back(name);
  names_forward_ = names_forward_ || PhaseOfMarker(name) == Phase::kForward;
  if (name == kIterationMarker) {
    BeginTraining();
    iteration_begins_.push_back(moment_);
    allocated_at_iteration_.push_back(allocated_);
  }
}

void MemoryTracker::EndMarker(const std::string& name) {
  // Threads may close their markers in any order: the innermost of that name is closed.
  const auto found = std::find(open_.rbegin(), open_.rend(), name);
  if (found == open_.rend()) {
    return;
  }
  open_.erase(std::next(found).base());
  if (name == kIterationMarker) {
    iteration_ends_.push_back(moment_);
  }
  const Phase phase = PhaseOfMarker(name);
  if (phase == Phase::kForward) {
    forward_ends_.push_back(moment_);
  } else if (phase == Phase::kRecompute) {
    recompute_ends_.push_back(moment_);
  }
}

uint32_t MemoryTracker::PathIndex() {
  const auto [entry, is_new] = path_index_.emplace(open_, static_cast<uint32_t>(paths_.size()));
  if (is_new) {
    paths_.push_back(open_);
  }
  return entry->second;
}

Status MemoryTracker::PushCommInit(const channel::CommInitBody& body,
                                   const Definitions& definitions) {
  PRISM_ASSIGN_OR_RETURN(comm_names_[body.comm],
                         definitions.Name(Table::kGroupName, body.group_name));
  return OkStatus();
}

Status MemoryTracker::PushOutside(const channel::OutsideBody& body,
                                  const Definitions& definitions) {
  PRISM_ASSIGN_OR_RETURN(const std::string name, definitions.Name(Table::kOutsideName, body.name));
  outside_[{name, body.comm}] += body.bytes;
  outside_sum_ += body.bytes;
  if (outside_sum_ > outside_peak_) {
    outside_peak_ = outside_sum_;
    outside_at_peak_ = outside_;
  }
  return OkStatus();
}

// What a library holds for a communicator is one line per process group, whatever its parts.
std::vector<graph::MemoryClass> MemoryTracker::OutsideClasses() const {
  std::map<std::string, int64_t> bytes_by_name;
  for (const auto& [holder, bytes] : outside_at_peak_) {
    const auto& [what, comm] = holder;
    const auto group = comm_names_.find(comm);
    const bool is_named = group != comm_names_.end() && !group->second.empty();
    bytes_by_name[is_named ? "nccl:" + group->second : what] += bytes;
  }
  std::vector<graph::MemoryClass> classes;
  for (const auto& [name, bytes] : bytes_by_name) {
    if (bytes != 0) {
      classes.push_back({.name = name, .bytes = bytes, .mark = graph::Mark::kAssumed});
    }
  }
  // Without the framework's own count the reserved bytes include all segments.
  if (const int64_t bytes = AllocatorKnown() ? foreign_.Peak() : 0; bytes > 0) {
    classes.push_back({.name = "other allocations", .bytes = bytes});
  }
  return classes;
}

// The framework's peak may be below ours if the program has reset it, never above.
void MemoryTracker::PushStats(const channel::AllocatorStatsBody& body) {
  has_stats_ = true;
  reserved_peak_ = std::max(reserved_peak_, body.peak_reserved);
  if (body.allocated == allocated_ && body.peak_allocated <= peak_.bytes) {
    return;
  }
  if (sum_differs_++ == 0) {
    sum_differs_example_ = fmt::format(
        "the framework counts {} allocated bytes with a peak of {}, its blocks sum to {} and {}",
        body.allocated, body.peak_allocated, allocated_, peak_.bytes);
  }
}

void MemoryTracker::PushSegment(int64_t bytes) {
  segments_ += bytes;
  segments_peak_ = std::max(segments_peak_, segments_);
}

// Addresses count from the first one seen: where the device's memory begins means nothing.
void MemoryTracker::HashLayout(uint64_t kind, uint64_t address, int64_t bytes) {
  if (first_address_ == 0) {
    first_address_ = address;
  }
  for (const uint64_t word : {kind, address - first_address_, static_cast<uint64_t>(bytes)}) {
    for (int shift = 0; shift < 64; shift += 8) {
      layout_hash_ =
          FnvByte(static_cast<uint8_t>(word >> static_cast<unsigned>(shift)), layout_hash_);
    }
  }
}

// The phase is that of the program's own range; without one, autograd's.
Phase MemoryTracker::PhaseOf(const Block& block) const {
  const Phase named = PhaseOfPath(paths_[block.path]);
  return named == Phase::kOther && block.in_backward ? Phase::kBackward : named;
}

// By block.
std::vector<bool> MemoryTracker::Workspaces() const {
  return workspaces_.Find(blocks_.size(),
                          [&](uint32_t block) { return blocks_[block].died == kNever; });
}

// A marker that names a class decides. Otherwise: what existed before the first iteration and still
// does when it ends is a parameter, unless a backward pass allocated it or it is cuBLAS's;
// everything else (including a trial step before it) is classified by ClassInIteration.
std::string MemoryTracker::ClassOf(const Block& block, bool is_workspace) const {
  const std::vector<std::string>& path = paths_[block.path];
  for (auto name = path.rbegin(); name != path.rend(); ++name) {
    for (const auto& [marker, memory_class] : kNamedClasses) {
      if (*name == marker) {
        return std::string(memory_class);
      }
    }
  }
  if (is_workspace) {
    return "buffers";
  }
  if (iteration_begins_.empty() ||
      (block.born < iteration_begins_.front() &&
       block.died > FirstAfter(iteration_ends_, iteration_begins_.front(), kNever - 1) &&
       PhaseOf(block) != Phase::kBackward)) {
    return "parameters";
  }
  return ClassInIteration(block);
}

// What outlives its iteration is held by the optimizer, is a gradient, or is a buffer of a library
// or of the framework, by the phase that allocated it. What an iteration both allocates and frees
// is an activation if the forward phase (or its repetition under recomputation) that allocated it,
// or that follows, ended in between: it was kept for backward. The rest are temporaries.
std::string MemoryTracker::ClassInIteration(const Block& block) const {
  const Phase phase = PhaseOf(block);
  const uint32_t end = block.born < iteration_begins_.front()
                           ? iteration_begins_.front()
                           : FirstAfter(iteration_ends_, block.born, kNever);
  if (block.died > end) {
    if (phase == Phase::kOptimizer) {
      return "optimizer";
    }
    return phase == Phase::kBackward ? "gradients" : "buffers";
  }
  if (phase == Phase::kBackward || phase == Phase::kOptimizer) {
    return "temporaries";
  }
  const std::vector<uint32_t>& ends = phase == Phase::kRecompute ? recompute_ends_ : forward_ends_;
  return block.died > FirstAfter(ends, block.born, kNever) ? "activations" : "temporaries";
}

int64_t MemoryTracker::AllocatedAtIteration(int32_t iteration) const {
  const auto index = static_cast<size_t>(iteration);
  return iteration >= 0 && index < allocated_at_iteration_.size() ? allocated_at_iteration_[index]
                                                                  : 0;
}

std::vector<graph::MemoryClass> MemoryTracker::ClassesAt(const Peak& peak) const {
  std::map<std::string, int64_t> bytes_of;
  const std::vector<bool> workspaces = Workspaces();
  for (size_t index = 0; index < blocks_.size(); ++index) {
    const Block& block = blocks_[index];
    if (block.born <= peak.moment && block.died > peak.moment) {
      bytes_of[ClassOf(block, workspaces[index])] += block.bytes;
    }
  }
  std::vector<graph::MemoryClass> classes;
  for (const std::string_view name : kClassOrder) {
    const auto found = bytes_of.find(std::string(name));
    if (found != bytes_of.end()) {
      classes.push_back({.name = found->first, .bytes = found->second});
    }
  }
  return classes;
}

graph::MemoryProfile MemoryTracker::Profile(const Definitions& definitions,
                                            int32_t steady_iteration) const {
  graph::MemoryProfile profile;
  profile.peak_allocated = peak_.bytes;
  profile.peak_reserved = AllocatorKnown() ? reserved_peak_ : segments_peak_;
  profile.steady_allocated = AllocatedAtIteration(steady_iteration);
  profile.layout_hash = layout_hash_;
  profile.outside = OutsideClasses();
  if (peak_.block == kNever) {
    return profile;
  }
  profile.at_peak = ClassesAt(peak_);
  const Block& last = blocks_[peak_.block];
  const Result<FrameworkContext> context = definitions.Context(last.context);
  profile.peak_op = context.ok() ? DescribeContext(*context) : std::string();
  profile.peak_phase = fmt::format("{}", fmt::join(paths_[last.path], "/"));
  return profile;
}

HeldMemory MemoryTracker::Held(const Definitions& definitions, size_t largest) const {
  HeldMemory held;
  std::map<std::string, int64_t> classes;
  std::vector<uint32_t> live;
  const std::vector<bool> workspaces = Workspaces();
  for (uint32_t index = 0; index < blocks_.size(); ++index) {
    const Block& block = blocks_[index];
    if (block.died == kNever) {
      const std::string name = ClassOf(block, workspaces[index]);
      const bool is_kept = name == "temporaries" && PhaseOf(block) == Phase::kForward;
      classes[is_kept ? "activations" : name] += block.bytes;
      live.push_back(index);
    }
  }
  for (const std::string_view name : kClassOrder) {
    if (const auto found = classes.find(std::string(name)); found != classes.end()) {
      held.classes.push_back({.name = found->first, .bytes = found->second});
    }
  }
  std::ranges::stable_sort(live, std::ranges::greater(),
                           [&](uint32_t index) { return blocks_[index].bytes; });
  live.resize(std::min(live.size(), largest));
  for (const uint32_t index : live) {
    const Block& block = blocks_[index];
    const Result<FrameworkContext> context = definitions.Context(block.context);
    held.largest.push_back({block.bytes, context.ok() ? DescribeContext(*context) : std::string(),
                            fmt::format("{}", fmt::join(paths_[block.path], "/"))});
  }
  return held;
}

std::vector<graph::Warning> MemoryTracker::Warnings() const {
  std::vector<graph::Warning> warnings;
  if (training_peak_.has_value() && training_peak_->bytes < peak_.bytes) {
    std::vector<std::string> classes;
    for (const graph::MemoryClass& part : ClassesAt(*training_peak_)) {
      classes.push_back(fmt::format("{} {}", part.name, FormatBytes(part.bytes)));
    }
    warnings.push_back(
        {.code = "peak_before_training",
         .count = 1,
         .example = fmt::format("{} were allocated before the first iteration; the "
                                "peak of training is {}: {}",
                                FormatBytes(peak_.bytes), FormatBytes(training_peak_->bytes),
                                fmt::join(classes, ", "))});
  }
  if (sum_differs_ > 0) {
    warnings.push_back(
        {.code = "allocated_bytes_differ", .count = sum_differs_, .example = sum_differs_example_});
  }
  if (blocks_.empty() && has_framework_ && segments_peak_ > 0) {
    warnings.push_back(
        {.code = "allocator_not_seen",
         .count = 1,
         .example =
             fmt::format("{} bytes of device memory were taken, but no block of the framework's "
                         "caching allocator was seen: another allocator (backend:cudaMallocAsync) "
                         "does not tell what is allocated, so the peak is what it reserved",
                         segments_peak_)});
  }
  if (orphans_ > 0) {
    warnings.push_back({.code = "unknown_blocks_freed",
                        .count = orphans_,
                        .example = "a block was freed whose allocation was not seen"});
  }
  return warnings;
}

}  // namespace prism::slicer
