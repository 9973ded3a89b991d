// Exports and restores the state of the caching allocator.
#include <algorithm>

#include <fmt/format.h>

#include "replayer/memory/caching_allocator.h"

namespace prism::replayer {

std::vector<BlockSet::Entry> CachingAllocator::AllFree() const {
  std::vector<BlockSet::Entry> free;
  for (const Stream& stream : streams_) {
    for (const auto& pool : stream.pools) {
      for (const BlockSet* set : {&pool.mapped, &pool.unmapped}) {
        const std::vector<BlockSet::Entry> entries = set->Entries();
        free.insert(free.end(), entries.begin(), entries.end());
      }
    }
  }
  return free;
}

std::vector<SegmentState> CachingAllocator::Segments() const {
  std::vector<SegmentState> segments;
  for (BlockId head = 0; head < blocks_.size(); ++head) {
    const Block& first = blocks_[head];
    const bool begins = first.previous == kNone || !blocks_[first.previous].mapped;
    if (!first.live || !first.mapped || !begins) {
      continue;
    }
    SegmentState segment = {.address = first.address,
                            .stream = streams_[first.stream].id,
                            .pool = first.pool,
                            .is_expandable = first.expandable,
                            .blocks = {}};
    for (BlockId id = head; id != kNone && blocks_[id].mapped; id = blocks_[id].next) {
      const Block& block = blocks_[id];
      const BlockState state = block.allocated
                                   ? BlockState::kAllocated
                                   : (IsIdle(id) ? BlockState::kFree : BlockState::kPendingFree);
      segment.bytes += block.size;
      segment.blocks.push_back({block.address, block.size, block.requested, state});
    }
    segments.push_back(std::move(segment));
  }
  std::ranges::sort(segments, {}, &SegmentState::address);
  return segments;
}

Status CachingAllocator::RestoreSegment(const SegmentState& segment,
                                        std::map<uint64_t, BlockId>* allocated) {
  uint64_t address = segment.address;
  BlockId previous = kNone;
  for (const BlockInfo& info : segment.blocks) {
    if (info.address != address || info.bytes <= 0 || segment.is_expandable) {
      return InvalidArgument(
          fmt::format("the block at {:#x} does not continue a classic segment at {:#x}",
                      info.address, address));
    }
    Block block;
    block.address = info.address;
    block.size = info.bytes;
    block.requested = info.state == BlockState::kFree ? 0 : info.requested_bytes;
    block.previous = previous;
    block.stream = StreamIndex(segment.stream);
    block.pool = segment.pool;
    block.allocated = info.state == BlockState::kAllocated;
    const BlockId id = NewBlock(block);
    if (previous != kNone) {
      blocks_[previous].next = id;
    }
    if (info.state == BlockState::kPendingFree) {
      streams_[block.stream].events.emplace_back(device_->RecordEvent(segment.stream), id);
      blocks_[id].pending_events = 1;
      ++pending_events_;
    } else if (info.state == BlockState::kFree) {
      InsertFree(id);
    } else {
      (*allocated)[info.address] = id;
    }
    CountRestored(id);
    previous = id;
    address += static_cast<uint64_t>(info.bytes);
  }
  if (address != segment.address + static_cast<uint64_t>(segment.bytes)) {
    return InvalidArgument(
        fmt::format("the blocks of the segment at {:#x} do not fill it", segment.address));
  }
  device_bytes_ += segment.bytes;
  Count(segment.pool, [&](PoolStatistics* pool) {
    pool->segment.Increase(1);
    pool->reserved_bytes.Increase(segment.bytes);
  });
  return OkStatus();
}

void CachingAllocator::CountRestored(BlockId id) {
  const Block& block = blocks_[id];
  CountBlocks(block.pool, [&](PoolStatistics* pool) {
    if (block.allocated) {
      pool->allocation.Increase(1);
      pool->allocated_bytes.Increase(block.size);
    }
    if (!IsIdle(id)) {
      pool->active.Increase(1);
      pool->active_bytes.Increase(block.size);
      pool->requested_bytes.Increase(block.requested);
    }
  });
}

Result<std::map<uint64_t, CachingAllocator::BlockId>> CachingAllocator::Restore(
    std::span<const SegmentState> segments) {
  std::map<uint64_t, BlockId> allocated;
  for (const SegmentState& segment : segments) {
    PRISM_RETURN_IF_ERROR(RestoreSegment(segment, &allocated));
  }
  for (BlockId id = 0; id < blocks_.size(); ++id) {
    const Block& block = blocks_[id];
    if (IsIdle(id) && block.is_split()) {
      CountBlocks(block.pool, [&](PoolStatistics* pool) {
        pool->inactive_split.Increase(1);
        pool->inactive_split_bytes.Increase(block.size);
      });
    }
  }
  return allocated;
}

}  // namespace prism::replayer
