// State and history of a caching allocator as data: what a memory snapshot holds.
#pragma once

#include <cstdint>
#include <vector>

#include "replayer/memory/allocator_statistics.h"

namespace prism::replayer {

enum class AllocatorAction : uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kOutOfMemory,
  kSnapshot,
};

// One event. Bytes: as requested for kAlloc, kFree* and kOutOfMemory; of the segment or its pages
// for kSegment*. For kOutOfMemory the address is the device's free bytes, as torch records it.
struct AllocatorEvent {
  AllocatorAction action = AllocatorAction::kAlloc;
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t stream = 0;

  bool operator==(const AllocatorEvent&) const = default;
};

enum class BlockState : uint8_t { kFree, kAllocated, kPendingFree };

struct BlockInfo {
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t requested_bytes = 0;  // 0 for a free block
  BlockState state = BlockState::kFree;

  bool operator==(const BlockInfo&) const = default;
};

// One segment: contiguous blocks in address order.
struct SegmentState {
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t stream = 0;
  PoolKind pool = PoolKind::kSmall;
  bool is_expandable = false;
  std::vector<BlockInfo> blocks;

  bool operator==(const SegmentState&) const = default;
};

}  // namespace prism::replayer
