#include "replayer/memory/memory_account.h"

#include <algorithm>

#include "graph/base/check.h"

namespace prism::replayer {
namespace {

constexpr std::array<const char*, 5> kUseNames = {"parameters", "gradients", "optimizer",
                                                  "activations", "temporaries"};
constexpr int64_t kWithoutEnd = int64_t{1} << 50;
constexpr int64_t kCollectives = 1;  // a stream beside the one that allocates

}  // namespace

MemoryAccount::MemoryAccount(const AllocatorConfig& config, int64_t capacity_bytes)
    : device_(capacity_bytes), allocator_(config, &device_) {
}

std::optional<MemoryAccount::Block> MemoryAccount::TryAllocate(int64_t bytes, MemoryUse use) {
  if (bytes <= 0) {
    return std::nullopt;
  }
  std::optional<CachingAllocator::BlockId> id = allocator_.Allocate(bytes, 0);
  if (!id) {
    device_.set_capacity_bytes(kWithoutEnd);
    id = allocator_.Allocate(bytes, 0);
  }
  PRISM_CHECK(id.has_value());
  now_[static_cast<size_t>(use)] += allocator_.SizeOf(*id);
  const int64_t allocated = allocator_.statistics().all.allocated_bytes.current;
  if (allocated > peak_) {
    peak_ = allocated;
    at_peak_ = now_;
  }
  return Block{.id = *id, .use = use};
}

MemoryAccount::Block MemoryAccount::Allocate(int64_t bytes, MemoryUse use) {
  const std::optional<Block> block = TryAllocate(bytes, use);
  PRISM_CHECK(block.has_value());
  return *block;
}

void MemoryAccount::Free(const Block& block) {
  now_[static_cast<size_t>(block.use)] -= allocator_.SizeOf(block.id);
  allocator_.Free(block.id);
}

void MemoryAccount::IssueCollective(int64_t lead) {
  ++issued_;
  passed_ = std::max(passed_, issued_ + lead);
  device_.SetNow(issued_);
  device_.SetStreamEnd(kCollectives, passed_);
}

void MemoryAccount::FreeBehindCollective(const Block& block) {
  allocator_.RecordStream(block.id, kCollectives);
  Free(block);
}

void MemoryAccount::Synchronize() {
  issued_ = std::max(issued_, passed_);
  device_.SetNow(issued_);
}

StageMemory MemoryAccount::Finish() const {
  StageMemory memory;
  memory.peak_allocated = peak_;
  memory.peak_reserved = allocator_.statistics().all.reserved_bytes.peak;
  for (size_t i = 0; i < kUseNames.size(); ++i) {
    if (at_peak_[i] > 0) {
      memory.at_peak.push_back({kUseNames[i], at_peak_[i], graph::Mark::kAssumed});
    }
  }
  return memory;
}

}  // namespace prism::replayer
