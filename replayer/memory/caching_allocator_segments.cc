// Segments of the caching allocator: taken from the device, grown page by page, released.
#include <algorithm>
#include <numeric>

#include "graph/base/divide.h"
#include "replayer/memory/caching_allocator.h"

namespace prism::replayer {
// Page size of an expandable segment.
int64_t CachingAllocator::PageBytes(PoolKind pool) const {
  return pool == PoolKind::kSmall ? kSmallSegmentBytes : config_.large_segment_bytes;
}

// A block that serves the request and is in no free set; kNone if the device is full. A memory
// limit is compared with the size of a classic segment in either mode, as torch does.
CachingAllocator::BlockId CachingAllocator::NewSegment(const Request& request) {
  const int64_t bytes = config_.SegmentSize(request.bytes);
  if (limit_bytes_ != kUnlimitedBytes && device_bytes_ + bytes > limit_bytes_) {
    return kNone;
  }
  if (config_.expandable_segments) {
    return GrowExpandable(request);
  }
  const std::optional<uint64_t> address = device_->Allocate(bytes);
  if (!address) {
    return kNone;
  }
  device_bytes_ += bytes;
  ++statistics_.device_allocations;
  Count(request.pool, [&](PoolStatistics* pool) {
    pool->segment.Increase(1);
    pool->reserved_bytes.Increase(bytes);
  });
  Trace(AllocatorAction::kSegmentAlloc, *address, bytes, request.stream);
  Block block;
  block.address = *address;
  block.size = bytes;
  block.stream = request.stream;
  block.pool = request.pool;
  return NewBlock(block);
}

CachingAllocator::BlockId CachingAllocator::GrowExpandable(const Request& request) {
  BlockId candidate = FindExpandable(request);
  if (!blocks_[candidate].mapped &&
      !MapBlock(candidate, std::min(blocks_[candidate].size, request.bytes))) {
    return kNone;
  }
  // A free block, followed by unmapped ones: what is mapped is merged into the free block before
  // it.
  while (blocks_[candidate].size < request.bytes) {
    const BlockId next = blocks_[candidate].next;
    const int64_t missing = request.bytes - blocks_[candidate].size;
    if (!MapBlock(next, std::min(missing, blocks_[next].size))) {
      return kNone;
    }
    candidate = next;
  }
  EraseFree(candidate);
  return candidate;
}

// The first run of free and unmapped blocks, by address, that could hold the request; else a new
// address range of 9/8 of the device, as one unmapped block.
CachingAllocator::BlockId CachingAllocator::FindExpandable(const Request& request) {
  const auto fits = [&](BlockId first) {
    int64_t bytes = 0;
    for (BlockId id = first; id != kNone && bytes < request.bytes && IsIdle(id);
         id = blocks_[id].next) {
      bytes += blocks_[id].size;
    }
    return bytes >= request.bytes;
  };
  FreeBlocks& pool = streams_[request.stream].pools[static_cast<size_t>(request.pool)];
  for (auto it = pool.unmapped.FirstOf(0); !pool.unmapped.AtEnd(it); it = pool.unmapped.Next(it)) {
    BlockId first = pool.unmapped.At(it).block;
    const BlockId before = blocks_[first].previous;
    if (before != kNone && IsIdle(before)) {
      first = before;
    }
    if (fits(first)) {
      return first;
    }
  }
  const int64_t total = device_->total_bytes();
  Block block;
  block.size = RoundUp(total + total / 8, PageBytes(request.pool));
  block.address = device_->Reserve(block.size);
  block.stream = request.stream;
  block.pool = request.pool;
  block.mapped = false;
  block.expandable = true;
  const BlockId id = NewBlock(block);
  InsertFree(id);
  return id;
}

// Maps the first `bytes` of an unmapped block, in whole pages, and merges it with free neighbours.
bool CachingAllocator::MapBlock(BlockId id, int64_t bytes) {
  const uint64_t address = blocks_[id].address;
  const int64_t mapped_bytes = RoundUp(bytes, PageBytes(blocks_[id].pool));
  if (!device_->Map(address, mapped_bytes)) {
    return false;
  }
  EraseFree(id);
  if (mapped_bytes < blocks_[id].size) {
    InsertFree(CutOff(id, mapped_bytes));  // the rest stays unmapped
  }
  blocks_[id].mapped = true;
  InsertMerged(id);
  device_bytes_ += mapped_bytes;
  ++statistics_.device_allocations;
  Count(blocks_[id].pool,
        [&](PoolStatistics* pool) { pool->reserved_bytes.Increase(mapped_bytes); });
  Trace(AllocatorAction::kSegmentMap, address, mapped_bytes, blocks_[id].stream);
  return true;
}

// Releases the whole pages inside a free block of an expandable segment.
void CachingAllocator::UnmapBlock(BlockId id) {
  const auto page = static_cast<uint64_t>(PageBytes(blocks_[id].pool));
  const uint64_t base = RangeBegin(id);
  const uint64_t offset = blocks_[id].address - base;
  const uint64_t end = offset + static_cast<uint64_t>(blocks_[id].size);
  const uint64_t first = RoundUp(offset, page);
  const uint64_t last = end / page * page;
  if (first >= last) {
    return;
  }
  EraseFree(id);
  if (last < end) {
    InsertFree(CutOff(id, static_cast<int64_t>(last - offset)));
  }
  BlockId unmapped = id;
  if (first > offset) {
    unmapped = CutOff(id, static_cast<int64_t>(first - offset));
    InsertFree(id);
  }
  const int64_t bytes = blocks_[unmapped].size;
  const uint64_t address = blocks_[unmapped].address;
  device_->Unmap(address, bytes);
  blocks_[unmapped].mapped = false;
  InsertMerged(unmapped);
  device_bytes_ -= bytes;
  ++statistics_.device_frees;
  const Block& block = blocks_[unmapped];
  Count(block.pool, [&](PoolStatistics* pool) { pool->reserved_bytes.Decrease(bytes); });
  Trace(AllocatorAction::kSegmentUnmap, address, bytes, block.stream);
  if (!block.is_split()) {
    EraseFree(unmapped);
    DeleteBlock(unmapped);
  }
}

uint64_t CachingAllocator::RangeBegin(BlockId id) const {
  while (blocks_[id].previous != kNone) {
    id = blocks_[id].previous;
  }
  return blocks_[id].address;
}

// Releases a free block that is a whole classic segment.
void CachingAllocator::ReleaseSegment(BlockId id) {
  EraseFree(id);
  const Block block = blocks_[id];
  DeleteBlock(id);
  device_->Free(block.address, block.size);
  device_bytes_ -= block.size;
  ++statistics_.device_frees;
  Count(block.pool, [&](PoolStatistics* pool) {
    pool->segment.Decrease(1);
    pool->reserved_bytes.Decrease(block.size);
  });
  Trace(AllocatorAction::kSegmentFree, block.address, block.size, block.stream);
}

// With a split limit: releases one cached oversize block that covers the request, or several from
// the largest down. These are whole segments, because blocks of that size are never split.
bool CachingAllocator::ReleaseAvailable(const Request& request) {
  if (config_.max_split_bytes == kUnlimitedBytes) {
    return false;
  }
  const int64_t wanted = std::max(request.bytes, config_.max_split_bytes);
  const BlockSet& free = streams_[request.stream].pools[static_cast<size_t>(request.pool)].mapped;
  const BlockSet::Position covering = free.FirstOf(wanted);
  if (!free.AtEnd(covering) && !blocks_[free.At(covering).block].expandable) {
    ReleaseSegment(free.At(covering).block);
    return true;
  }
  std::vector<BlockSet::Entry> entries = free.Entries();
  const auto above = std::partition_point(entries.begin(), entries.end(),
                                          [&](const auto& entry) { return entry.size < wanted; });
  entries.erase(above, entries.end());
  int64_t released = 0;
  for (auto entry = entries.rbegin();
       entry != entries.rend() && released < wanted && entry->size >= config_.max_split_bytes;
       ++entry) {
    if (!blocks_[entry->block].expandable) {
      released += entry->size;
      ReleaseSegment(entry->block);
    }
  }
  return released >= wanted;
}

void CachingAllocator::EmptyCache() {
  ReleaseCached();
}

// Waits for every pending free, then releases free segments and whole free pages, the large pool
// first.
void CachingAllocator::ReleaseCached() {
  ++statistics_.sync_all_streams;
  for (Stream& stream : streams_) {
    while (!stream.events.empty()) {
      PopEvent(&stream);
    }
  }
  for (const PoolKind pool : {PoolKind::kLarge, PoolKind::kSmall}) {
    std::vector<BlockId> expandable;
    for (const uint16_t stream : StreamsById()) {
      for (const BlockSet::Entry& entry :
           streams_[stream].pools[static_cast<size_t>(pool)].mapped.Entries()) {
        if (blocks_[entry.block].expandable) {
          expandable.push_back(entry.block);
        } else if (!blocks_[entry.block].is_split()) {
          ReleaseSegment(entry.block);
        }
      }
    }
    std::ranges::for_each(expandable, [&](BlockId block) { UnmapBlock(block); });
  }
}

// Above the threshold, releases unsplit segments of the large pool that are at least as old as the
// mean, repeatedly until enough is free. Age is measured in searches of the pool.
void CachingAllocator::CollectGarbage() {
  const auto threshold = static_cast<int64_t>(config_.garbage_collection_threshold *
                                              static_cast<double>(limit_bytes_));
  const int64_t target = device_bytes_ - threshold;
  const auto age = [&](BlockId id) {
    return searches_[static_cast<size_t>(PoolKind::kLarge)] - blocks_[id].searches_at_free;
  };
  std::vector<BlockId> candidates;
  for (const uint16_t stream : StreamsById()) {
    for (const BlockSet::Entry& entry :
         streams_[stream].pools[static_cast<size_t>(PoolKind::kLarge)].mapped.Entries()) {
      if (!blocks_[entry.block].is_split()) {
        candidates.push_back(entry.block);
      }
    }
  }
  int64_t reclaimed = 0;
  bool has_freed = true;
  while (reclaimed < target && has_freed && !candidates.empty()) {
    const int64_t total_age =
        std::accumulate(candidates.begin(), candidates.end(), int64_t{0},
                        [&](int64_t sum, BlockId id) { return sum + age(id); });
    const double mean_age = static_cast<double>(total_age) / static_cast<double>(candidates.size());
    std::vector<BlockId> kept;
    for (const BlockId id : candidates) {
      if (static_cast<double>(age(id)) < mean_age || blocks_[id].expandable) {
        kept.push_back(id);
        continue;
      }
      reclaimed += blocks_[id].size;
      ReleaseSegment(id);
    }
    has_freed = kept.size() < candidates.size();
    candidates = std::move(kept);
  }
}

std::vector<uint16_t> CachingAllocator::StreamsById() const {
  std::vector<uint16_t> order(streams_.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::ranges::sort(order, {}, [&](uint16_t index) { return streams_[index].id; });
  return order;
}

}  // namespace prism::replayer
