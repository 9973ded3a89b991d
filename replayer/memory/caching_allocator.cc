#include "replayer/memory/caching_allocator.h"

#include <algorithm>

#include "graph/base/check.h"

namespace prism::replayer {

CachingAllocator::CachingAllocator(const AllocatorConfig& config,
                                   AllocatorDevice* device,
                                   bool counts_blocks)
    : config_(config), device_(device), counts_blocks_(counts_blocks) {
  if (config_.memory_fraction < 1) {
    limit_bytes_ =
        static_cast<int64_t>(config_.memory_fraction * static_cast<double>(device_->total_bytes()));
  }
}

std::optional<CachingAllocator::BlockId> CachingAllocator::Allocate(int64_t bytes, int64_t stream) {
  PRISM_CHECK_LT(0, bytes);
  if (pending_events_ > 0) {
    ProcessEvents();
  }
  const int64_t rounded = config_.RoundSize(bytes);
  const Request request = {.bytes = rounded,
                           .pool = rounded <= kSmallBytes ? PoolKind::kSmall : PoolKind::kLarge,
                           .stream = StreamIndex(stream)};
  const std::optional<BlockSet::Position> found = FindFree(request);
  BlockSet& free = streams_[request.stream].pools[static_cast<size_t>(request.pool)].mapped;
  const BlockId block = found.has_value() ? free.At(*found).block : FromDevice(request);
  if (block == kNone) {
    ++statistics_.out_of_memory;
    Trace(AllocatorAction::kOutOfMemory, static_cast<uint64_t>(device_->free_bytes()), rounded,
          request.stream);
    return std::nullopt;
  }
  const bool was_split = blocks_[block].is_split();
  const bool splits = ShouldSplit(blocks_[block].size, request.pool, rounded);
  if (splits) {
    const BlockSet::Entry rest = EntryOf(CutOff(block, rounded));
    found.has_value() ? free.Replace(*found, rest) : free.Insert(rest);
  } else if (found.has_value()) {
    free.EraseAt(*found);
  }
  HandOut(block, bytes, was_split, splits);
  return block;
}

// What NewSegment returns, after more and more of the cache was released.
CachingAllocator::BlockId CachingAllocator::FromDevice(const Request& request) {
  if (limit_bytes_ != kUnlimitedBytes && config_.garbage_collection_threshold > 0) {
    CollectGarbage();
  }
  BlockId block = NewSegment(request);
  if (block == kNone && ReleaseAvailable(request)) {
    block = NewSegment(request);
  }
  if (block == kNone) {
    ReleaseCached();
    ++statistics_.alloc_retries;
    block = NewSegment(request);
  }
  return block;
}

// Best fit: the smallest free block of the stream that is large enough, ties to the lowest address.
std::optional<BlockSet::Position> CachingAllocator::FindFree(const Request& request) {
  if (limit_bytes_ != kUnlimitedBytes && config_.garbage_collection_threshold > 0) {
    ++searches_[static_cast<size_t>(request.pool)];
  }
  const BlockSet& free = streams_[request.stream].pools[static_cast<size_t>(request.pool)].mapped;
  BlockSet::Position found = free.FirstOf(request.bytes);
  if (free.AtEnd(found)) {
    return std::nullopt;
  }
  // The open end of an expandable segment counts with the size that it could grow to, so it is used
  // last.
  const auto grown = [&](const BlockSet::Entry& entry) {
    const BlockId next = blocks_[entry.block].next;
    return entry.size + (next != kNone && !blocks_[next].mapped ? blocks_[next].size : 0);
  };
  while (blocks_[free.At(found).block].expandable) {
    const BlockSet::Position next = free.Next(found);
    if (free.AtEnd(next) || grown(free.At(next)) >= grown(free.At(found))) {
      break;
    }
    found = next;
  }
  const int64_t size = free.At(found).size;
  const bool is_oversize = request.bytes >= config_.max_split_bytes;
  if (!is_oversize && size >= config_.max_split_bytes) {
    return std::nullopt;
  }
  if (is_oversize && size >= request.bytes + config_.max_non_split_rounding_bytes) {
    return std::nullopt;
  }
  return found;
}

bool CachingAllocator::ShouldSplit(int64_t size, PoolKind pool, int64_t bytes) const {
  const int64_t remaining = size - bytes;
  if (pool == PoolKind::kSmall || config_.expandable_segments) {
    return remaining >= kMinBlockBytes;
  }
  return bytes < config_.max_split_bytes && remaining > kSmallBytes;
}

// A request takes the low part of `block`, which keeps its id; the rest becomes a block, which is
// returned and is in no free set yet.
CachingAllocator::BlockId CachingAllocator::CutOff(BlockId block, int64_t bytes) {
  const BlockId rest_id = NewBlock(blocks_[block]);
  Block& cut = blocks_[block];
  Block& rest = blocks_[rest_id];
  rest.address += static_cast<uint64_t>(bytes);
  rest.size -= bytes;
  rest.previous = block;
  rest.searches_at_free = searches_[static_cast<size_t>(rest.pool)];
  if (rest.next != kNone) {
    blocks_[rest.next].previous = rest_id;
  }
  cut.next = rest_id;
  cut.size = bytes;
  return rest_id;
}

// Of a block that is in no free set. `was_split`: before it was cut for this request, if it was
// (`splits`).
void CachingAllocator::HandOut(BlockId block, int64_t requested, bool was_split, bool splits) {
  Block& handed = blocks_[block];
  handed.allocated = true;
  handed.requested = requested;
  CountBlocks(handed.pool, [&](PoolStatistics* pool) {
    if (!handed.expandable && was_split) {
      pool->inactive_split_bytes.Decrease(handed.size);
      if (!splits) {
        pool->inactive_split.Decrease(1);
      }
    } else if (!handed.expandable && splits) {
      pool->inactive_split_bytes.Increase(blocks_[handed.next].size);
      pool->inactive_split.Increase(1);
    }
    pool->allocation.Increase(1);
    pool->allocated_bytes.Increase(handed.size);
    pool->active.Increase(1);
    pool->active_bytes.Increase(handed.size);
    pool->requested_bytes.Increase(requested);
  });
  Trace(AllocatorAction::kAlloc, handed.address, requested, handed.stream);
}

std::optional<int64_t> CachingAllocator::BytesFromFree(std::span<const int64_t> rounded,
                                                       int64_t stream) {
  if (config_.max_split_bytes != kUnlimitedBytes || config_.expandable_segments ||
      pending_events_ > 0) {
    return std::nullopt;
  }
  const std::array<FreeBlocks, 2>& pools = streams_[StreamIndex(stream)].pools;
  for (Taken& taken : would_take_) {
    taken.blocks.clear();
    taken.rests.clear();
  }
  int64_t sum = 0;
  for (const int64_t bytes : rounded) {
    const PoolKind pool = bytes <= kSmallBytes ? PoolKind::kSmall : PoolKind::kLarge;
    const auto index = static_cast<size_t>(pool);
    const int64_t size = TakeFrom(pools[index].mapped, pool, bytes, &would_take_[index]);
    if (size == 0) {
      return std::nullopt;
    }
    sum += size;
  }
  return sum;
}

// The size of the block that a request would get after what was taken, 0 if there is none: the best
// fit among the free blocks and the rests.
int64_t CachingAllocator::TakeFrom(const BlockSet& free,
                                   PoolKind pool,
                                   int64_t bytes,
                                   Taken* taken) const {
  BlockSet::Position found = free.FirstOf(bytes);
  while (!free.AtEnd(found) &&
         std::ranges::find(taken->blocks, free.At(found).address) != taken->blocks.end()) {
    found = free.Next(found);
  }
  const auto rest = std::ranges::find_if(
      taken->rests, [&](const BlockSet::Entry& entry) { return entry.size >= bytes; });
  const bool from_rest =
      rest != taken->rests.end() && (free.AtEnd(found) || *rest < free.At(found));
  if (!from_rest && free.AtEnd(found)) {
    return 0;
  }
  BlockSet::Entry entry = from_rest ? *rest : free.At(found);
  if (from_rest) {
    taken->rests.erase(rest);
  } else {
    taken->blocks.push_back(entry.address);
  }
  if (!ShouldSplit(entry.size, pool, bytes)) {
    return entry.size;
  }
  entry.size -= bytes;
  entry.address += static_cast<uint64_t>(bytes);
  taken->rests.insert(
      std::ranges::find_if(taken->rests,
                           [&](const BlockSet::Entry& other) { return entry < other; }),
      entry);
  return bytes;
}

void CachingAllocator::Free(BlockId id) {
  Block& block = blocks_[id];
  PRISM_CHECK(block.live && block.allocated);
  block.allocated = false;
  CountBlocks(block.pool, [&](PoolStatistics* pool) {
    pool->allocation.Decrease(1);
    pool->allocated_bytes.Decrease(block.size);
  });
  Trace(AllocatorAction::kFreeRequested, block.address, block.requested, block.stream);
  if (!block.used_elsewhere) {
    CompleteFree(id);
    return;
  }
  const auto uses = stream_uses_.find(id);
  for (const uint16_t stream : uses->second) {
    streams_[stream].events.emplace_back(device_->RecordEvent(streams_[stream].id), id);
    ++block.pending_events;
    ++pending_events_;
  }
  stream_uses_.erase(uses);
  block.used_elsewhere = false;
}

void CachingAllocator::RecordStream(BlockId block, int64_t stream) {
  PRISM_CHECK(blocks_[block].live && blocks_[block].allocated);
  const uint16_t index = StreamIndex(stream);
  if (index == blocks_[block].stream) {
    return;
  }
  std::vector<uint16_t>& uses = stream_uses_[block];
  if (std::ranges::find(uses, index) == uses.end()) {
    uses.push_back(index);
  }
  blocks_[block].used_elsewhere = true;
}

void CachingAllocator::ProcessEvents() {
  if (pending_events_ == 0) {
    return;
  }
  for (Stream& stream : streams_) {
    while (!stream.events.empty() && device_->HasFinished(stream.events.front().first)) {
      PopEvent(&stream);
    }
  }
}

void CachingAllocator::PopEvent(Stream* stream) {
  const BlockId block = stream->events.front().second;
  stream->events.pop_front();
  --pending_events_;
  if (--blocks_[block].pending_events == 0) {
    CompleteFree(block);
  }
}

bool CachingAllocator::IsIdle(BlockId id) const {
  const Block& block = blocks_[id];
  return !block.allocated && block.pending_events == 0 && !block.used_elsewhere;
}

bool CachingAllocator::CanMerge(BlockId id, BlockId neighbour) const {
  return neighbour != kNone && IsIdle(neighbour) && blocks_[neighbour].mapped == blocks_[id].mapped;
}

// Adds a neighbour, which is in no free set any more, to the block `id`.
void CachingAllocator::Join(BlockId id, BlockId neighbour) {
  Block& block = blocks_[id];
  const Block& joined = blocks_[neighbour];
  if (block.previous == neighbour) {
    block.address = joined.address;
    block.previous = joined.previous;
    if (block.previous != kNone) {
      blocks_[block.previous].next = id;
    }
  } else {
    block.next = joined.next;
    if (block.next != kNone) {
      blocks_[block.next].previous = id;
    }
  }
  block.size += joined.size;
  DeleteBlock(neighbour);
}

// Puts a block into its free set, together with its free neighbours, and returns their number. The
// place of one of them in the set is kept: blocks that grow often need not move.
int64_t CachingAllocator::InsertMerged(BlockId id) {
  const BlockId before = blocks_[id].previous;
  const BlockId after = blocks_[id].next;
  const bool joins_before = CanMerge(id, before);
  const bool joins_after = CanMerge(id, after);
  if (!joins_before && !joins_after) {
    InsertFree(id);
    return 0;
  }
  BlockSet& free = SetOf(blocks_[id]);
  if (joins_before && joins_after) {
    free.Erase(EntryOf(before));
  }
  const BlockSet::Position place = free.Find(EntryOf(joins_after ? after : before));
  if (joins_before) {
    Join(id, before);
  }
  if (joins_after) {
    Join(id, after);
  }
  blocks_[id].searches_at_free = searches_[static_cast<size_t>(blocks_[id].pool)];
  free.Replace(place, EntryOf(id));
  return joins_before && joins_after ? 2 : 1;
}

void CachingAllocator::CompleteFree(BlockId id) {
  Block& block = blocks_[id];
  Trace(AllocatorAction::kFreeCompleted, block.address, block.requested, block.stream);
  const int64_t own_bytes = block.size;
  const int64_t merged = InsertMerged(id);
  const int64_t merged_bytes = block.size - own_bytes;
  CountBlocks(block.pool, [&](PoolStatistics* pool) {
    if (!block.expandable) {
      pool->inactive_split.Change((block.is_split() ? 1 : 0) - merged);
      pool->inactive_split_bytes.Change((block.is_split() ? block.size : 0) - merged_bytes);
    }
    pool->active.Decrease(1);
    pool->active_bytes.Decrease(own_bytes);
    pool->requested_bytes.Decrease(block.requested);
  });
  block.requested = 0;
}

// `block` may be one of blocks_.
CachingAllocator::BlockId CachingAllocator::NewBlock(const Block& block) {
  BlockId id = static_cast<BlockId>(blocks_.size());
  if (unused_.empty()) {
    blocks_.push_back(block);
  } else {
    id = unused_.back();
    unused_.pop_back();
    blocks_[id] = block;
  }
  blocks_[id].live = true;
  return id;
}

void CachingAllocator::DeleteBlock(BlockId block) {
  blocks_[block].live = false;
  unused_.push_back(block);
}

BlockSet& CachingAllocator::SetOf(const Block& block) {
  FreeBlocks& free = streams_[block.stream].pools[static_cast<size_t>(block.pool)];
  return block.mapped ? free.mapped : free.unmapped;
}

BlockSet::Entry CachingAllocator::EntryOf(BlockId id) const {
  const Block& block = blocks_[id];
  return {.size = block.mapped ? block.size : 0, .address = block.address, .block = id};
}

void CachingAllocator::InsertFree(BlockId id) {
  blocks_[id].searches_at_free = searches_[static_cast<size_t>(blocks_[id].pool)];
  SetOf(blocks_[id]).Insert(EntryOf(id));
}

void CachingAllocator::EraseFree(BlockId id) {
  SetOf(blocks_[id]).Erase(EntryOf(id));
}

uint16_t CachingAllocator::StreamIndex(int64_t stream) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].id == stream) {
      return static_cast<uint16_t>(i);
    }
  }
  streams_.emplace_back().id = stream;
  return static_cast<uint16_t>(streams_.size() - 1);
}

void CachingAllocator::Trace(AllocatorAction action,
                             uint64_t address,
                             int64_t bytes,
                             uint16_t stream) {
  if (trace_ != nullptr) {
    trace_->push_back({action, address, bytes, streams_[stream].id});
  }
}

}  // namespace prism::replayer
