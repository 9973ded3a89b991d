// Rules of the caching allocator at their limits, as far as no script meets them.
#include "replayer/memory/caching_allocator.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/memory/memory_account.h"

namespace prism::replayer {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

int64_t Reserved(const CachingAllocator& allocator) {
  return allocator.statistics().all.reserved_bytes.current;
}

// Takes blocks of these sizes, then frees them all.
void Cache(CachingAllocator* allocator, const std::vector<int64_t>& sizes) {
  std::vector<std::optional<CachingAllocator::BlockId>> blocks;
  for (const int64_t bytes : sizes) {
    blocks.push_back(allocator->Allocate(bytes, 0));
  }
  for (const auto& block : blocks) {
    allocator->Free(*block);
  }
}

TEST(CachingAllocator, an_oversize_block_serves_what_is_less_than_the_rounding_smaller) {
  AllocatorConfig config;
  config.max_split_bytes = 32 * kMiB;
  config.max_non_split_rounding_bytes = 4 * kMiB;
  for (const int64_t smaller : {2, 4}) {
    SimulatedDevice device(1024 * kMiB);
    CachingAllocator allocator(config, &device);
    Cache(&allocator, {40 * kMiB});
    allocator.Allocate((40 - smaller) * kMiB, 0);
    EXPECT_EQ(Reserved(allocator), (smaller < 4 ? 40 : 40 + 36) * kMiB);
  }
}

TEST(CachingAllocator, releases_no_more_oversize_blocks_than_it_needs) {
  AllocatorConfig config;
  config.max_split_bytes = 20 * kMiB;
  SimulatedDevice device(100 * kMiB);
  CachingAllocator allocator(config, &device);
  Cache(&allocator, {24 * kMiB, 40 * kMiB, 30 * kMiB});
  ASSERT_TRUE(allocator.Allocate(60 * kMiB, 0).has_value());
  EXPECT_EQ(Reserved(allocator), (24 + 60) * kMiB);
}

TEST(CachingAllocator, a_limit_may_be_reached) {
  AllocatorConfig config;
  config.memory_fraction = 0.5;
  SimulatedDevice device(40 * kMiB);
  CachingAllocator allocator(config, &device);
  EXPECT_TRUE(allocator.Allocate(5 * kMiB, 0).has_value()) << "a segment of 20 MiB";
  EXPECT_FALSE(allocator.Allocate(16 * kMiB, 0).has_value());
}

// A segment is as old as the mean of itself.
TEST(CachingAllocator, a_single_segment_is_garbage) {
  AllocatorConfig config;
  config.memory_fraction = 0.5;
  config.garbage_collection_threshold = 0.2;
  SimulatedDevice device(200 * kMiB);
  CachingAllocator allocator(config, &device);
  Cache(&allocator, {40 * kMiB});
  ASSERT_TRUE(allocator.Allocate(50 * kMiB, 0).has_value());
  EXPECT_EQ(Reserved(allocator), 50 * kMiB);
}

TEST(CachingAllocator, empties_the_large_pool_first) {
  SimulatedDevice device(1024 * kMiB);
  CachingAllocator allocator({}, &device);
  Cache(&allocator, {512, 40 * kMiB});
  std::vector<AllocatorEvent> trace;
  allocator.set_trace(&trace);
  allocator.EmptyCache();
  ASSERT_EQ(trace.size(), 2U);
  EXPECT_EQ(trace[0].bytes, 40 * kMiB);
  EXPECT_EQ(trace[1].bytes, 2 * kMiB);
}

// The device passes collectives in order: the second, which it passes at once, after the first.
TEST(MemoryAccount, what_a_later_collective_read_waits_for_the_earlier_one) {
  MemoryAccount account({}, 1024 * kMiB);
  const auto address = [&] {
    return account.AddressOf(account.Allocate(4 * kMiB, MemoryUse::kTemporaries));
  };
  const MemoryAccount::Block block = account.Allocate(4 * kMiB, MemoryUse::kActivations);
  const uint64_t first = account.AddressOf(block);
  account.IssueCollective(5);
  account.IssueCollective(0);
  account.FreeBehindCollective(block);
  EXPECT_NE(address(), first);
  account.Synchronize();
  EXPECT_EQ(address(), first);
}

TEST(MemoryAccount, of_equal_peaks_the_first_is_told) {
  MemoryAccount account({}, 1024 * kMiB);
  account.Allocate(kMiB, MemoryUse::kParameters);
  account.Free(account.Allocate(4 * kMiB, MemoryUse::kActivations));
  account.Free(account.Allocate(4 * kMiB, MemoryUse::kTemporaries));
  const Result<StageMemory> memory = account.Finish();
  ASSERT_TRUE(memory.ok());
  ASSERT_EQ(memory->at_peak.size(), 2U);
  EXPECT_EQ(memory->at_peak[1].name, "activations");
  EXPECT_EQ(memory->at_peak[1].bytes, 4 * kMiB);
}

}  // namespace
}  // namespace prism::replayer
