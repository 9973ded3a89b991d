// Blocks of a simulated caching allocator by their use, on a rank whose host may be ahead of its
// device.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/base/status.h"
#include "replayer/memory/caching_allocator.h"
#include "replayer/memory/memory_use.h"
#include "replayer/memory/passing_tensors.h"
#include "replayer/memory/stage_memory.h"

namespace prism::replayer {

// A rank that needs more than `capacity_bytes` first releases its cache, as a real one does, and
// then gets what it still lacks: the question is how much it needs. Beyond 1 PiB there is no
// answer.
class MemoryAccount {
 public:
  struct Block {
    CachingAllocator::BlockId id = 0;
    MemoryUse use = MemoryUse::kTemporaries;
  };

  MemoryAccount(const AllocatorConfig& config, int64_t capacity_bytes);

  [[nodiscard]] const AllocatorConfig& config() const { return allocator_.config(); }

  // A block of 0 bytes takes no space, as in torch, but may be freed like any other. Memory that
  // one stream has freed cannot be used by another.
  Block Allocate(int64_t bytes, MemoryUse use, int64_t stream = 0);
  void Free(const Block& block);

  // Allocates tensors and frees them again, if that does nothing to the free blocks; returns
  // whether it has. `use`: null if they differ in it, and then no new peak is reached.
  bool Pass(const PassingTensors& tensors, std::optional<MemoryUse> use);

  // The host issues a collective on a separate stream; the device has passed it when the host has
  // issued `lead` more.
  void IssueCollective(int64_t lead);

  // Frees the input of the collective issued last: it cannot be reused before the device has passed
  // that collective (Tensor.record_stream).
  void FreeBehindCollective(const Block& block);

  // The host waits for the device.
  void Synchronize();

  // Everything that decides where later blocks are placed, other than the blocks held.
  struct Places {
    std::vector<BlockSet::Entry> free;
    int64_t device_calls = 0;  // that took memory from the device or released it

    bool operator==(const Places&) const = default;
  };
  [[nodiscard]] Places FreePlaces() const {
    const AllocatorStatistics& statistics = allocator_.statistics();
    return {allocator_.AllFree(), statistics.device_allocations + statistics.device_frees};
  }

  // 0 for a block that has no address.
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
  int64_t passed_ = 0;               // the count at which the device passes the last one issued
  std::array<int64_t, 5> now_ = {};  // allocated, by use
  std::array<int64_t, 5> at_peak_ = {};
  int64_t allocated_ = 0;
  int64_t peak_ = 0;
  bool beyond_ = false;  // something found no place
};

}  // namespace prism::replayer
