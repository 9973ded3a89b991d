// Exact simulation of torch's CUDA caching allocator (native backend): which address every tensor
// gets, which segments are requested from the device and when the device is full.
//
// Follows c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.11; addresses equal those of the real
// allocator if the device returns the same segments. Time enters only through
// AllocatorDevice::HasFinished, for blocks that another stream has used. Not simulated: private
// pools of CUDA graphs, and free-memory callbacks.
//
//   SimulatedDevice device(int64_t{80} << 30);
//   CachingAllocator allocator(AllocatorConfig{}, &device);
//   std::optional<CachingAllocator::BlockId> block = allocator.Allocate(1 << 20, 0);
//   if (!block) ...  // out of memory, after every retry
//   allocator.Free(*block);
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "graph/base/status.h"
#include "replayer/memory/allocator_config.h"
#include "replayer/memory/allocator_device.h"
#include "replayer/memory/allocator_statistics.h"
#include "replayer/memory/allocator_trace.h"
#include "replayer/memory/block_set.h"

namespace prism::replayer {

class CachingAllocator {
 public:
  // Identifies a block until it is freed; after that the number may be reused.
  using BlockId = uint32_t;

  // The device must outlive the allocator. `counts_blocks`: otherwise the statistics are only about
  // segments and what was asked of the device, for a simulation that needs no others: counting
  // takes as long as finding a block.
  CachingAllocator(const AllocatorConfig& config,
                   AllocatorDevice* device,
                   bool counts_blocks = true);

  [[nodiscard]] const AllocatorConfig& config() const { return config_; }

  // A block of at least `bytes` > 0 for the stream; nullopt if the device is full even after the
  // whole cache was released.
  std::optional<BlockId> Allocate(int64_t bytes, int64_t stream);

  // Frees an allocated block. It stays active until the device has passed the uses by other streams
  // that were recorded.
  void Free(BlockId block);

  // Another stream uses the block (Tensor.record_stream).
  void RecordStream(BlockId block, int64_t stream);

  // torch.cuda.empty_cache(): waits for pending frees, then releases free segments.
  void EmptyCache();

  // Completes the frees whose events have passed, as every Allocate does first.
  void ProcessEvents();

  // The bytes of the blocks that requests of these rounded sizes would get one after the other,
  // without having them; null if one would need memory of the device, or if settings or pending
  // events make it hard to tell.
  [[nodiscard]] std::optional<int64_t> BytesFromFree(std::span<const int64_t> rounded,
                                                     int64_t stream);

  [[nodiscard]] uint64_t AddressOf(BlockId block) const { return blocks_[block].address; }

  [[nodiscard]] int64_t SizeOf(BlockId block) const { return blocks_[block].size; }

  [[nodiscard]] const AllocatorStatistics& statistics() const { return statistics_; }

  // Free blocks by stream, pool, size and address.
  [[nodiscard]] std::vector<BlockSet::Entry> AllFree() const;

  // Every segment and its blocks, both in address order; an expandable range is reported as one
  // segment per mapped run.
  [[nodiscard]] std::vector<SegmentState> Segments() const;

  // Initialises an unused allocator from a state of classic segments. Returns the ids of allocated
  // blocks by address; a block that was waiting for an event waits until the device has passed its
  // stream.
  Result<std::map<uint64_t, BlockId>> Restore(std::span<const SegmentState> segments);

  // Appends every event from now on to `trace`, which must outlive this; nullptr stops it.
  void set_trace(std::vector<AllocatorEvent>* trace) { trace_ = trace; }

 private:
  static constexpr BlockId kNone = 0xFFFFFFFFU;

  struct Block {
    uint64_t address = 0;
    int64_t size = 0;
    int64_t requested = 0;
    BlockId previous = kNone;  // neighbours in the segment
    BlockId next = kNone;
    uint32_t pending_events = 0;
    uint16_t stream = 0;  // index into streams_
    PoolKind pool = PoolKind::kSmall;
    bool live = false;  // this entry is in use
    bool allocated = false;
    bool mapped = true;
    bool expandable = false;
    bool used_elsewhere = false;   // has an entry in stream_uses_
    int64_t searches_at_free = 0;  // of its pool, for its age

    [[nodiscard]] bool is_split() const { return previous != kNone || next != kNone; }
  };

  struct FreeBlocks {
    BlockSet mapped;
    BlockSet unmapped;  // ordered by address: their size counts as 0
  };

  struct Stream {
    int64_t id = 0;
    std::array<FreeBlocks, 2> pools;                 // by PoolKind
    std::deque<std::pair<int64_t, BlockId>> events;  // oldest first
  };

  struct Request {
    int64_t bytes;  // rounded
    PoolKind pool;
    uint16_t stream;
  };

  // What requests would take from the free blocks of a pool.
  struct Taken {
    std::vector<uint64_t> blocks;        // by address
    std::vector<BlockSet::Entry> rests;  // cut off from them, in order
  };

  // caching_allocator.cc
  std::optional<BlockSet::Position> FindFree(const Request& request);
  [[nodiscard]] bool ShouldSplit(int64_t size, PoolKind pool, int64_t bytes) const;
  int64_t TakeFrom(const BlockSet& free, PoolKind pool, int64_t bytes, Taken* taken) const;
  BlockId FromDevice(const Request& request);
  void HandOut(BlockId block, int64_t requested, bool was_split, bool splits);
  BlockId CutOff(BlockId block, int64_t bytes);
  void CompleteFree(BlockId id);
  [[nodiscard]] bool CanMerge(BlockId id, BlockId neighbour) const;
  void Join(BlockId id, BlockId neighbour);
  int64_t InsertMerged(BlockId id);
  [[nodiscard]] bool IsIdle(BlockId id) const;
  void PopEvent(Stream* stream);

  // caching_allocator_segments.cc
  BlockId NewSegment(const Request& request);
  BlockId GrowExpandable(const Request& request);
  BlockId FindExpandable(const Request& request);
  bool MapBlock(BlockId id, int64_t bytes);
  void UnmapBlock(BlockId id);
  void ReleaseSegment(BlockId id);
  bool ReleaseAvailable(const Request& request);
  void ReleaseCached();
  void CollectGarbage();
  [[nodiscard]] int64_t PageBytes(PoolKind pool) const;
  [[nodiscard]] uint64_t RangeBegin(BlockId id) const;
  [[nodiscard]] std::vector<uint16_t> StreamsById() const;

  // caching_allocator_state.cc
  Status RestoreSegment(const SegmentState& segment, std::map<uint64_t, BlockId>* allocated);
  void CountRestored(BlockId id);

  BlockId NewBlock(const Block& block);
  void DeleteBlock(BlockId block);
  [[nodiscard]] BlockSet::Entry EntryOf(BlockId id) const;
  void InsertFree(BlockId id);
  void EraseFree(BlockId id);
  BlockSet& SetOf(const Block& block);
  uint16_t StreamIndex(int64_t stream);
  void Trace(AllocatorAction action, uint64_t address, int64_t bytes, uint16_t stream);

  template <typename Update>
  void Count(PoolKind pool, Update update) {
    update(&statistics_.all);
    update(&statistics_.pools[static_cast<size_t>(pool)]);
  }

  template <typename Update>
  void CountBlocks(PoolKind pool, Update update) {
    if (counts_blocks_) {
      Count(pool, update);
    }
  }

  AllocatorConfig config_;
  AllocatorDevice* device_;
  bool counts_blocks_;
  int64_t limit_bytes_ = kUnlimitedBytes;  // limit on what is taken from the device
  int64_t device_bytes_ = 0;               // taken now
  std::vector<Block> blocks_;
  std::vector<BlockId> unused_;  // entries of blocks_ without a block
  std::vector<Stream> streams_;  // by first use
  std::map<BlockId, std::vector<uint16_t>> stream_uses_;
  int64_t pending_events_ = 0;
  std::array<int64_t, 2> searches_ = {};  // by pool, counted only if garbage collection is on
  std::array<Taken, 2> would_take_;       // of BytesFromFree, kept for its memory
  AllocatorStatistics statistics_;
  std::vector<AllocatorEvent>* trace_ = nullptr;
};

}  // namespace prism::replayer
