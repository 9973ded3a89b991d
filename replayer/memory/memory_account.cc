#include "replayer/memory/memory_account.h"

#include <algorithm>

namespace prism::replayer {
namespace {

constexpr std::array<const char*, 5> kUseNames = {"parameters", "gradients", "optimizer",
                                                  "activations", "temporaries"};
constexpr int64_t kWithoutEnd = int64_t{1} << 50;
constexpr CachingAllocator::BlockId kNowhere = 0xFFFFFFFFU;  // of a block without memory
constexpr int64_t kCollectives = 1;  // a stream other than the one that allocates

}  // namespace

MemoryAccount::MemoryAccount(const AllocatorConfig& config, int64_t capacity_bytes)
    : device_(capacity_bytes), allocator_(config, &device_, /*counts_blocks=*/false) {
}

MemoryAccount::Block MemoryAccount::Allocate(int64_t bytes, MemoryUse use, int64_t stream) {
  if (bytes <= 0) {
    return {.id = kNowhere, .use = use};
  }
  std::optional<CachingAllocator::BlockId> id = allocator_.Allocate(bytes, stream);
  if (!id) {
    device_.set_capacity_bytes(kWithoutEnd);
    id = allocator_.Allocate(bytes, stream);
  }
  if (!id) {
    beyond_ = true;
    return {.id = kNowhere, .use = use};
  }
  const int64_t size = allocator_.SizeOf(*id);
  now_[static_cast<size_t>(use)] += size;
  allocated_ += size;
  if (allocated_ > peak_) {
    peak_ = allocated_;
    at_peak_ = now_;
  }
  return {.id = *id, .use = use};
}

void MemoryAccount::Free(const Block& block) {
  if (block.id == kNowhere) {
    return;
  }
  const int64_t size = allocator_.SizeOf(block.id);
  now_[static_cast<size_t>(block.use)] -= size;
  allocated_ -= size;
  allocator_.Free(block.id);
}

bool MemoryAccount::Pass(const PassingTensors& tensors, std::optional<MemoryUse> use) {
  const std::optional<int64_t> bytes = allocator_.BytesFromFree(tensors.rounded(), 0);
  if (!bytes.has_value() || (allocated_ + *bytes > peak_ && !use.has_value())) {
    return false;
  }
  if (allocated_ + *bytes > peak_) {
    peak_ = allocated_ + *bytes;
    at_peak_ = now_;
    at_peak_[static_cast<size_t>(*use)] += *bytes;
  }
  return true;
}

uint64_t MemoryAccount::AddressOf(const Block& block) const {
  return block.id == kNowhere ? 0 : allocator_.AddressOf(block.id);
}

void MemoryAccount::IssueCollective(int64_t lead) {
  ++issued_;
  passed_ = std::max(passed_, issued_ + lead);
  device_.SetNow(issued_);
  device_.SetStreamEnd(kCollectives, passed_);
}

void MemoryAccount::FreeBehindCollective(const Block& block) {
  if (block.id != kNowhere) {
    allocator_.RecordStream(block.id, kCollectives);
  }
  Free(block);
}

void MemoryAccount::Synchronize() {
  issued_ = std::max(issued_, passed_);
  device_.SetNow(issued_);
}

Result<StageMemory> MemoryAccount::Finish() const {
  if (beyond_) {
    return RunFailed("a rank would need more than 1 PiB of memory");
  }
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
