// Blocks of a simulated caching allocator by what they are for, on a rank whose host may be ahead
// of its device.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/base/status.h"
#include "replayer/memory/caching_allocator.h"
#include "replayer/memory/stage_memory.h"

namespace prism::replayer {

enum class MemoryUse : uint8_t { kParameters, kGradients, kOptimizer, kActivations, kTemporaries };

// A rank that needs more than `capacity_bytes` first gives back what it has cached, as the real
// one, and is then given what it lacks: the question is how much is wanted. Beyond 1 PiB that is
// no answer any more.
class MemoryAccount {
 public:
  struct Block {
    CachingAllocator::BlockId id = 0;
    MemoryUse use = MemoryUse::kTemporaries;
  };

  MemoryAccount(const AllocatorConfig& config, int64_t capacity_bytes);

  // No bytes take no place, as in torch; the block may be freed all the same. What one stream has
  // given back no other one can use.
  Block Allocate(int64_t bytes, MemoryUse use, int64_t stream = 0);
  void Free(const Block& block);

  // The host issues a collective on a stream of its own; the device has passed it when the host
  // has issued `lead` more.
  void IssueCollective(int64_t lead);

  // Gives back what the collective last issued reads: it cannot be used again before the device
  // has passed that (Tensor.record_stream).
  void FreeBehindCollective(const Block& block);

  // The host waits for the device.
  void Synchronize();

  // All that decides where later blocks go, beside those that are held.
  struct Places {
    std::vector<BlockSet::Entry> free;
    int64_t device_calls = 0;  // that took memory from the device, or gave it back

    bool operator==(const Places&) const = default;
  };
  [[nodiscard]] Places FreePlaces() const {
    const AllocatorStatistics& statistics = allocator_.statistics();
    return {allocator_.AllFree(), statistics.device_allocations + statistics.device_frees};
  }

  // 0 of a block without a place.
  [[nodiscard]] uint64_t AddressOf(const Block& block) const;

  [[nodiscard]] int64_t reserved_bytes() const {
    return allocator_.statistics().all.reserved_bytes.current;
  }

  // Peaks so far; kRunFailed beyond 1 PiB.
  [[nodiscard]] Result<StageMemory> Finish() const;

 private:
  SimulatedDevice device_;  // its time is the number of collectives issued
  CachingAllocator allocator_;
  int64_t issued_ = 0;
  int64_t passed_ = 0;  // the count at which the device passes what was issued last
  std::array<int64_t, 5> now_ = {};
  std::array<int64_t, 5> at_peak_ = {};
  int64_t peak_ = 0;
  bool beyond_ = false;  // something found no place
};

}  // namespace prism::replayer
