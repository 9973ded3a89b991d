// Laws of the caching allocator's simulation that hold for any sequence of requests, and a second,
// simplest possible implementation of the classic rules to compare with.
#include "replayer/memory/caching_allocator.h"

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/memory/allocator_config.h"
#include "tests/support/allocator_script.h"

namespace prism::replayer {
namespace {

using prism::testing::AllocatorScriptOptions;
using prism::testing::AllocatorStep;
using prism::testing::AllocatorStepKind;
using prism::testing::RandomAllocatorScript;

// Segments never merge, the blocks of a segment are in order, every search starts at the beginning.
// Default settings, one stream, unlimited device memory.
class SimpleAllocator {
 public:
  uint64_t Allocate(int64_t bytes) {
    const int64_t rounded = std::max<int64_t>((bytes + 511) / 512 * 512, 512);
    const bool is_small = rounded <= kSmallBytes;
    Block* best = nullptr;
    for (Segment& segment : segments_) {
      for (Block& block : segment.blocks) {
        const bool fits = segment.is_small == is_small && block.is_free && block.size >= rounded;
        if (fits && (best == nullptr || block.size < best->size ||
                     (block.size == best->size && block.address < best->address))) {
          best = &block;
        }
      }
    }
    if (best == nullptr) {
      best = &NewSegment(rounded, is_small);
    }
    return Take(best, rounded, is_small);
  }

  void Free(uint64_t address) {
    for (Segment& segment : segments_) {
      for (Block& block : segment.blocks) {
        if (block.address == address && !block.is_free) {
          block.is_free = true;
          allocated_ -= block.size;
          Join(&segment);
          return;
        }
      }
    }
  }

  [[nodiscard]] int64_t allocated() const { return allocated_; }

  [[nodiscard]] int64_t reserved() const { return reserved_; }

 private:
  struct Block {
    uint64_t address;
    int64_t size;
    bool is_free;
  };

  struct Segment {
    bool is_small;
    std::list<Block> blocks;
  };

  Block& NewSegment(int64_t rounded, bool is_small) {
    constexpr int64_t kMebibyte = 1 << 20;
    int64_t size = 2 * kMebibyte;
    if (!is_small) {
      size = rounded < 10 * kMebibyte
                 ? 20 * kMebibyte
                 : (rounded + 2 * kMebibyte - 1) / (2 * kMebibyte) * (2 * kMebibyte);
    }
    const uint64_t address = SimulatedDevice::kBase + static_cast<uint64_t>(reserved_);
    reserved_ += size;
    segments_.push_back({is_small, {{address, size, true}}});
    return segments_.back().blocks.back();
  }

  uint64_t Take(Block* block, int64_t rounded, bool is_small) {
    const int64_t rest = block->size - rounded;
    for (Segment& segment : segments_) {
      for (auto it = segment.blocks.begin(); it != segment.blocks.end(); ++it) {
        if (&*it == block && (is_small ? rest >= 512 : rest > kSmallBytes)) {
          const uint64_t after = block->address + static_cast<uint64_t>(rounded);
          segment.blocks.insert(std::next(it), {after, rest, true});
          block->size = rounded;
        }
      }
    }
    block->is_free = false;
    allocated_ += block->size;
    return block->address;
  }

  static void Join(Segment* segment) {
    for (auto it = segment->blocks.begin(); std::next(it) != segment->blocks.end();) {
      const auto next = std::next(it);
      if (it->is_free && next->is_free) {
        it->size += next->size;
        segment->blocks.erase(next);
      } else {
        it = next;
      }
    }
  }

  std::list<Segment> segments_;
  int64_t allocated_ = 0;
  int64_t reserved_ = 0;
};

TEST(CachingAllocatorProperty, agrees_with_the_simple_allocator) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatedDevice device(int64_t{1} << 50);
    CachingAllocator allocator(AllocatorConfig{}, &device);
    SimpleAllocator simple;
    std::vector<CachingAllocator::BlockId> blocks;
    std::vector<uint64_t> addresses;
    for (const AllocatorStep& step : RandomAllocatorScript({.seed = seed})) {
      const auto index = static_cast<size_t>(step.value);
      if (step.kind == AllocatorStepKind::kAllocate) {
        blocks.push_back(*allocator.Allocate(step.value, 0));
        addresses.push_back(simple.Allocate(step.value));
        ASSERT_EQ(allocator.AddressOf(blocks.back()), addresses.back());
      } else if (step.kind == AllocatorStepKind::kFree) {
        allocator.Free(blocks[index]);
        simple.Free(addresses[index]);
      }
      ASSERT_EQ(allocator.statistics().all.allocated_bytes.current, simple.allocated());
      ASSERT_EQ(allocator.statistics().all.reserved_bytes.current, simple.reserved());
    }
  }
}

int64_t BytesIn(const std::vector<SegmentState>& segments, BlockState state) {
  int64_t bytes = 0;
  for (const SegmentState& segment : segments) {
    for (const BlockInfo& block : segment.blocks) {
      bytes += block.state == state ? block.bytes : 0;
    }
  }
  return bytes;
}

// Segments do not overlap and are filled; free neighbours are merged; the statistics are sums over
// the blocks.
void CheckState(const CachingAllocator& allocator) {
  const std::vector<SegmentState> segments = allocator.Segments();
  uint64_t end = 0;
  int64_t reserved = 0;
  for (const SegmentState& segment : segments) {
    ASSERT_GE(segment.address, end);
    end = segment.address;
    bool was_free = false;
    for (const BlockInfo& block : segment.blocks) {
      ASSERT_EQ(block.address, end);
      ASSERT_GT(block.bytes, 0);
      ASSERT_EQ(block.bytes % kMinBlockBytes, 0);
      ASSERT_FALSE(was_free && block.state == BlockState::kFree) << "free neighbours";
      was_free = block.state == BlockState::kFree;
      end += static_cast<uint64_t>(block.bytes);
    }
    ASSERT_EQ(end, segment.address + static_cast<uint64_t>(segment.bytes));
    reserved += segment.bytes;
  }
  const PoolStatistics& all = allocator.statistics().all;
  const int64_t allocated = BytesIn(segments, BlockState::kAllocated);
  EXPECT_EQ(all.reserved_bytes.current, reserved);
  EXPECT_EQ(all.allocated_bytes.current, allocated);
  EXPECT_EQ(all.active_bytes.current, allocated + BytesIn(segments, BlockState::kPendingFree));
}

// Streams lag a few steps behind what was issued, so that frees wait.
void RunChecked(const AllocatorConfig& config, const AllocatorScriptOptions& options) {
  SimulatedDevice device(int64_t{4} << 30);
  CachingAllocator allocator(config, &device);
  std::vector<std::optional<CachingAllocator::BlockId>> blocks;
  int64_t now = 0;
  for (const AllocatorStep& step : RandomAllocatorScript(options)) {
    device.SetNow(++now);
    device.SetStreamEnd(step.stream, now + 7 * (step.stream + 1));
    const auto index = static_cast<size_t>(step.value);
    if (step.kind == AllocatorStepKind::kAllocate) {
      blocks.push_back(allocator.Allocate(step.value, step.stream));
    } else if (step.kind == AllocatorStepKind::kEmptyCache) {
      allocator.EmptyCache();
    } else if (blocks[index] && step.kind == AllocatorStepKind::kFree) {
      allocator.Free(*blocks[index]);
    } else if (blocks[index]) {
      allocator.RecordStream(*blocks[index], step.stream);
    }
    if (now % 16 == 0) {
      ASSERT_NO_FATAL_FAILURE(CheckState(allocator));
    }
    ASSERT_LE(allocator.statistics().all.reserved_bytes.current, device.total_bytes());
  }
}

TEST(CachingAllocatorProperty, blocks_never_overlap_and_sums_hold) {
  const std::vector<std::string> settings = {
      "",
      "expandable_segments:True",
      "max_split_size_mb:40",
      "roundup_power2_divisions:4",
      "garbage_collection_threshold:0.2,per_process_memory_fraction:0.4",
      "expandable_segments:True,per_process_memory_fraction:0.4"};
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const std::string& chosen = settings[seed % settings.size()];
    SCOPED_TRACE("seed " + std::to_string(seed) + " settings '" + chosen + "'");
    RunChecked(*ParseAllocatorConfig(chosen), {.seed = seed,
                                               .steps = 1500,
                                               .streams = 1 + static_cast<int64_t>(seed % 3),
                                               .largest_bytes = int64_t{16} << (20 + seed % 5)});
    if (HasFatalFailure()) {
      return;
    }
  }
}

TEST(CachingAllocatorProperty, a_block_used_elsewhere_waits_for_that_stream) {
  SimulatedDevice device(int64_t{1} << 30);
  CachingAllocator allocator(AllocatorConfig{}, &device);
  const auto block = allocator.Allocate(4096, 0);
  const uint64_t address = allocator.AddressOf(*block);
  allocator.RecordStream(*block, 5);
  device.SetStreamEnd(5, 100);
  allocator.Free(*block);
  EXPECT_EQ(allocator.statistics().all.active_bytes.current, 4096);
  EXPECT_NE(allocator.AddressOf(*allocator.Allocate(4096, 0)), address);
  device.SetNow(100);
  EXPECT_EQ(allocator.AddressOf(*allocator.Allocate(4096, 0)), address);
}

TEST(AllocatorConfig, refuses_what_it_does_not_know) {
  for (const char* text : {"max_split_size_mb:19", "backend:cudaMallocAsync",
                           "expandable_segments:1", "no_such:1", "roundup_power2_divisions:[3:2]",
                           "roundup_power2_divisions:3", "garbage_collection_threshold:1.5"}) {
    EXPECT_FALSE(ParseAllocatorConfig(text).ok()) << text;
  }
}

}  // namespace
}  // namespace prism::replayer
