#include "slicer/record/memory_tracker.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/units.h"
#include "slicer/record/op_stream.h"

namespace prism::slicer {

using channel::RecordKind;

Status MemoryTracker::Push(const channel::Record& record, const Definitions& definitions) {
  has_framework_ = has_framework_ || record.context != 0;
  switch (record.kind) {
    case RecordKind::kBlockAlloc:
      return PushBlockAlloc(record, definitions);
    case RecordKind::kBlockFree:
      PushBlockFree(record);
      return OkStatus();
    case RecordKind::kMatmul:
      workspaces_.SeeProduct(record);
      return OkStatus();
    case RecordKind::kMarker:
      return PushMarker(record.marker, definitions);
    case RecordKind::kCommInit:
      return outside_.Push(record.comm_init, definitions);
    case RecordKind::kOutsideAlloc:
      return outside_.Push(record.outside, definitions);
    case RecordKind::kSegmentAlloc:
      PushSegment(LayoutHash::Event::kSegmentAlloc, record.segment);
      return OkStatus();
    case RecordKind::kSegmentFree:
      PushSegment(LayoutHash::Event::kSegmentFree, record.segment);
      return OkStatus();
    case RecordKind::kAllocatorStats:
      stats_.Push(record.stats, allocated_, peak_.bytes);
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
  layout_.Add(LayoutHash::Event::kBlockAlloc, body.address, body.bytes);
  const bool in_backward = (record.flags & channel::kInBackward) != 0;
  SeePass(in_backward);
  workspaces_.SeeBlock(index, record, definitions);
  blocks_.push_back(
      {.bytes = body.bytes,
       .context = record.context,
       .lifetime = {.born = history_.Tick(), .path = history_.path(), .in_backward = in_backward}});
  allocated_ += body.bytes;
  for (Peak* peak : {&peak_, training_peak_ ? &*training_peak_ : nullptr}) {
    if (peak != nullptr && IsPeak(*peak)) {
      *peak = {allocated_, history_.now(), index};
    }
  }
  return OkStatus();
}

// Of equal peaks the first inside an iteration: there it is known what each block is for.
bool MemoryTracker::IsPeak(const Peak& peak) const {
  const uint32_t first = history_.FirstIteration();
  const bool is_first_inside = first != PassHistory::kNever && peak.moment <= first;
  return allocated_ > peak.bytes || (allocated_ == peak.bytes && is_first_inside);
}

void MemoryTracker::SeePass(bool in_backward) {
  if (history_.SeePass(in_backward)) {
    BeginTraining();
  }
}

void MemoryTracker::BeginTraining() {
  if (!training_peak_.has_value()) {
    training_peak_ = {allocated_, history_.now(), std::nullopt};
  }
}

void MemoryTracker::PushBlockFree(const channel::Record& record) {
  const auto live = live_.find(record.segment.address);
  if (live == live_.end()) {
    ++orphans_;
    return;
  }
  SeePass((record.flags & channel::kInBackward) != 0);
  Block& block = blocks_[live->second];
  block.lifetime.died = history_.Tick();
  allocated_ -= block.bytes;
  layout_.Add(LayoutHash::Event::kBlockFree, record.segment.address, block.bytes);
  live_.erase(live);
}

Status MemoryTracker::PushMarker(const channel::MarkerBody& body, const Definitions& definitions) {
  PRISM_ASSIGN_OR_RETURN(const std::string name,
                         definitions.Name(channel::Table::kMarkerName, body.name));
  if (body.begin == 0) {
    history_.EndMarker(name);
  } else if (name == kIterationMarker) {
    BeginIteration();
  } else {
    history_.BeginMarker(name);
  }
  return OkStatus();
}

void MemoryTracker::EndIteration() {
  history_.EndMarker(kIterationMarker);
}

void MemoryTracker::BeginIteration() {
  history_.BeginMarker(kIterationMarker);
  BeginTraining();
  allocated_at_iteration_.push_back(allocated_);
}

void MemoryTracker::PushSegment(LayoutHash::Event event, const channel::SegmentBody& body) {
  layout_.Add(event, body.address, body.bytes);
  if (event == LayoutHash::Event::kSegmentAlloc) {
    foreign_.TakeSegment(body.address, body.bytes);
    segments_ += body.bytes;
    segments_peak_ = std::max(segments_peak_, segments_);
  } else {
    foreign_.GiveSegments(body.address, body.bytes);
    segments_ -= body.bytes;
  }
}

std::vector<graph::MemoryClass> MemoryTracker::OutsideClasses() const {
  std::vector<graph::MemoryClass> classes = outside_.AtPeak();
  // Without the framework's own count the reserved bytes include all segments.
  if (const int64_t bytes = AllocatorKnown() ? foreign_.Peak() : 0; bytes > 0) {
    classes.push_back({.name = "other allocations", .bytes = bytes});
  }
  return classes;
}

// By block.
std::vector<bool> MemoryTracker::Workspaces() const {
  return workspaces_.Find(blocks_.size(),
                          [&](uint32_t block) { return blocks_[block].lifetime.IsLive(); });
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
    if (block.lifetime.born <= peak.moment && block.lifetime.died > peak.moment) {
      bytes_of[ClassOfBlock(block.lifetime, workspaces[index], history_)] += block.bytes;
    }
  }
  return InProfileOrder(bytes_of);
}

HeldMemory::Block MemoryTracker::Describe(const Block& block,
                                          const Definitions& definitions) const {
  const Result<FrameworkContext> context = definitions.Context(block.context);
  return {.bytes = block.bytes,
          .op = context.ok() ? DescribeContext(*context) : std::string(),
          .phase = fmt::format("{}", fmt::join(history_.Markers(block.lifetime.path), "/"))};
}

graph::MemoryProfile MemoryTracker::Profile(const Definitions& definitions,
                                            int32_t steady_iteration) const {
  graph::MemoryProfile profile;
  profile.peak_allocated = peak_.bytes;
  profile.peak_reserved = AllocatorKnown() ? stats_.peak_reserved() : segments_peak_;
  profile.steady_allocated = AllocatedAtIteration(steady_iteration);
  profile.layout_hash = layout_.hash();
  profile.outside = OutsideClasses();
  if (peak_.block.has_value()) {
    profile.at_peak = ClassesAt(peak_);
    const HeldMemory::Block last = Describe(blocks_[*peak_.block], definitions);
    profile.peak_op = last.op;
    profile.peak_phase = last.phase;
  }
  return profile;
}

HeldMemory MemoryTracker::Held(const Definitions& definitions, size_t largest) const {
  HeldMemory held;
  std::map<std::string, int64_t> classes;
  std::vector<uint32_t> live;
  const std::vector<bool> workspaces = Workspaces();
  for (uint32_t index = 0; index < blocks_.size(); ++index) {
    const BlockLifetime& lifetime = blocks_[index].lifetime;
    if (lifetime.IsLive()) {
      const std::string name = ClassOfBlock(lifetime, workspaces[index], history_);
      const Phase phase = history_.PhaseOf(lifetime.path, lifetime.in_backward);
      const bool is_kept = name == "temporaries" && phase == Phase::kForward;
      classes[is_kept ? "activations" : name] += blocks_[index].bytes;
      live.push_back(index);
    }
  }
  held.classes = InProfileOrder(classes);
  std::ranges::stable_sort(live, std::ranges::greater(),
                           [&](uint32_t index) { return blocks_[index].bytes; });
  live.resize(std::min(live.size(), largest));
  for (const uint32_t index : live) {
    held.largest.push_back(Describe(blocks_[index], definitions));
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
  if (stats_.differs() > 0) {
    warnings.push_back(
        {.code = "allocated_bytes_differ", .count = stats_.differs(), .example = stats_.example()});
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
