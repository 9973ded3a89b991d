#include "launch/emulate/clock/memory_history.h"

#include <utility>

namespace prism::launch {
namespace {

using channel::RecordKind;
using replayer::AllocatorAction;
using replayer::BlockState;

// Segments of the caching allocator's small pool have this size (c10's kSmallBuffer), others more.
constexpr int64_t kSmallSegmentBytes = int64_t{2} << 20;

// The blocks of a segment, free ones in between.
std::vector<replayer::BlockInfo> BlocksOf(uint64_t begin,
                                          int64_t bytes,
                                          const std::map<uint64_t, int64_t>& blocks) {
  const uint64_t end = begin + static_cast<uint64_t>(bytes);
  std::vector<replayer::BlockInfo> made;
  uint64_t at = begin;
  const auto add_free = [&](uint64_t until) {
    if (until > at) {
      made.push_back({.address = at, .bytes = static_cast<int64_t>(until - at)});
    }
  };
  for (auto block = blocks.lower_bound(begin); block != blocks.end() && block->first < end;
       ++block) {
    add_free(block->first);
    made.push_back({.address = block->first,
                    .bytes = block->second,
                    .requested_bytes = block->second,
                    .state = BlockState::kAllocated});
    at = block->first + static_cast<uint64_t>(block->second);
  }
  add_free(end);
  return made;
}

}  // namespace

Status MemoryHistory::Add(AllocatorAction action,
                          const channel::Record& record,
                          const slicer::Definitions& definitions) {
  const auto [frame, is_new] = frames_.try_emplace(record.context);
  if (is_new) {
    PRISM_ASSIGN_OR_RETURN(const slicer::FrameworkContext context,
                           definitions.Context(record.context));
    frame->second = context.op.empty() ? "" : slicer::DescribeContext(context);
  }
  replayer::SnapshotEvent event;
  event.event = {.action = action,
                 .address = record.segment.address,
                 .bytes = record.segment.bytes,
                 .stream = record.stream};
  event.time_us = static_cast<int64_t>(events_.size());
  event.frame = frame->second;
  events_.push_back(std::move(event));
  return OkStatus();
}

Status MemoryHistory::See(const channel::Record& record, const slicer::Definitions& definitions) {
  const channel::SegmentBody& body = record.segment;
  switch (record.kind) {
    case RecordKind::kSegmentAlloc:
      segments_[body.address] = body.bytes;
      return Add(AllocatorAction::kSegmentAlloc, record, definitions);
    case RecordKind::kSegmentFree:
      segments_.erase(body.address);
      return Add(AllocatorAction::kSegmentFree, record, definitions);
    case RecordKind::kBlockAlloc:
      blocks_[body.address] = body.bytes;
      return Add(AllocatorAction::kAlloc, record, definitions);
    case RecordKind::kBlockFree: {
      // A freed block has the size with which it was allocated, whatever the record says.
      const auto block = blocks_.find(body.address);
      if (block == blocks_.end()) {
        return OkStatus();  // allocated before blocks were reported to the shim
      }
      channel::Record freed = record;
      freed.segment.bytes = block->second;
      blocks_.erase(block);
      PRISM_RETURN_IF_ERROR(Add(AllocatorAction::kFreeRequested, freed, definitions));
      return Add(AllocatorAction::kFreeCompleted, freed, definitions);
    }
    case RecordKind::kOutOfMemory:
      return Add(AllocatorAction::kOutOfMemory, record, definitions);
    default:
      return OkStatus();
  }
}

std::string MemoryHistory::Encode() const {
  replayer::MemorySnapshot snapshot;
  for (const auto& [address, bytes] : segments_) {
    snapshot.segments.push_back({.address = address,
                                 .bytes = bytes,
                                 .pool = bytes <= kSmallSegmentBytes ? replayer::PoolKind::kSmall
                                                                     : replayer::PoolKind::kLarge,
                                 .blocks = BlocksOf(address, bytes, blocks_)});
  }
  snapshot.events = events_;
  return replayer::EncodeSnapshot(snapshot);
}

}  // namespace prism::launch
