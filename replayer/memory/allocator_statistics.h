// What the caching allocator counts, under torch's names (torch.cuda.memory_stats).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace prism::replayer {

// One quantity over time: a count or bytes.
struct AllocatorStat {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;  // sum of all increases
  int64_t freed = 0;      // sum of all decreases

  void Increase(int64_t amount) {
    current += amount;
    peak = std::max(peak, current);
    allocated += amount;
  }

  void Decrease(int64_t amount) {
    current -= amount;
    freed += amount;
  }

  void Change(int64_t amount) {
    if (amount > 0) {
      Increase(amount);
    } else {
      Decrease(-amount);
    }
  }

  bool operator==(const AllocatorStat&) const = default;
};

enum class PoolKind : uint8_t { kSmall = 0, kLarge = 1 };

struct PoolStatistics {
  AllocatorStat allocation;      // blocks requested and not freed
  AllocatorStat segment;         // classic segments only
  AllocatorStat active;          // blocks allocated or waiting for an event
  AllocatorStat inactive_split;  // free blocks that are part of a segment; classic segments only
  AllocatorStat allocated_bytes;
  AllocatorStat reserved_bytes;
  AllocatorStat active_bytes;
  AllocatorStat inactive_split_bytes;
  AllocatorStat requested_bytes;

  bool operator==(const PoolStatistics&) const = default;
};

struct AllocatorStatistics {
  PoolStatistics all;
  std::array<PoolStatistics, 2> pools;  // by PoolKind
  int64_t alloc_retries = 0;            // times the cache was flushed because the device was full
  int64_t out_of_memory = 0;            // requests that failed after every retry
  int64_t sync_all_streams = 0;         // times all pending frees were waited for
  int64_t device_allocations = 0;       // segments and maps
  int64_t device_frees = 0;

  bool operator==(const AllocatorStatistics&) const = default;
};

}  // namespace prism::replayer
