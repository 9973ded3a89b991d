// The allocator's simulation against allocator histories of real runs: every address, every
// segment, the state at the end and the peaks.
#include <deque>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "replayer/memory/caching_allocator.h"
#include "tests/support/memory_recording.h"

namespace prism::replayer {
namespace {

using prism::testing::MemoryRecording;

// Returns the segments that the recorded driver returned, in that order.
class RecordedDevice final : public AllocatorDevice {
 public:
  void Expect(const AllocatorEvent& segment) { segments_.push_back(segment); }

  [[nodiscard]] bool all_taken() const { return segments_.empty(); }

  [[nodiscard]] int64_t total_bytes() const override { return int64_t{80} << 30; }

  [[nodiscard]] int64_t free_bytes() const override { return total_bytes(); }

  std::optional<uint64_t> Allocate(int64_t bytes) override {
    if (segments_.empty() || segments_.front().bytes != bytes) {
      return std::nullopt;
    }
    const uint64_t address = segments_.front().address;
    segments_.pop_front();
    return address;
  }

  void Free(uint64_t /*address*/, int64_t /*bytes*/) override {}

  uint64_t Reserve(int64_t /*bytes*/) override { return 0; }

  bool Map(uint64_t /*address*/, int64_t /*bytes*/) override { return false; }

  void Unmap(uint64_t /*address*/, int64_t /*bytes*/) override {}

  int64_t RecordEvent(int64_t /*stream*/) override { return 0; }

  [[nodiscard]] bool HasFinished(int64_t /*event*/) const override { return true; }

 private:
  std::deque<AllocatorEvent> segments_;
};

void ExpectEqual(const std::vector<SegmentState>& ours, const std::vector<SegmentState>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    SCOPED_TRACE("segment " + std::to_string(i));
    ASSERT_EQ(ours[i].address, theirs[i].address);
    ASSERT_EQ(ours[i].pool, theirs[i].pool);
    ASSERT_EQ(ours[i].blocks.size(), theirs[i].blocks.size());
    for (size_t block = 0; block < ours[i].blocks.size(); ++block) {
      EXPECT_EQ(ours[i].blocks[block].address, theirs[i].blocks[block].address);
      EXPECT_EQ(ours[i].blocks[block].bytes, theirs[i].blocks[block].bytes);
      EXPECT_EQ(ours[i].blocks[block].state, theirs[i].blocks[block].state);
      EXPECT_EQ(ours[i].blocks[block].requested_bytes, theirs[i].blocks[block].requested_bytes);
    }
    EXPECT_EQ(ours[i], theirs[i]);
  }
}

// Feeds allocations and frees; every answer must be the recorded one.
class RecordingReplay {
 public:
  RecordingReplay() : allocator_(AllocatorConfig{}, &device_) {}

  void Run(const MemoryRecording& recording) {
    auto restored = allocator_.Restore(recording.before);
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    live_ = *restored;
    for (size_t i = 0; i < recording.events.size() && !::testing::Test::HasFailure(); ++i) {
      SCOPED_TRACE("event " + std::to_string(i));
      Step(recording.events[i]);
    }
    ExpectEqual(allocator_.Segments(), recording.after);
  }

  [[nodiscard]] const AllocatorStatistics& statistics() const { return allocator_.statistics(); }

 private:
  void Step(const AllocatorEvent& event) {
    switch (event.action) {
      case AllocatorAction::kSegmentAlloc:
        device_.Expect(event);
        break;
      case AllocatorAction::kAlloc: {
        const auto block = allocator_.Allocate(event.bytes, event.stream);
        ASSERT_TRUE(block.has_value());
        ASSERT_EQ(allocator_.AddressOf(*block), event.address);
        ASSERT_TRUE(device_.all_taken());
        live_[event.address] = *block;
        break;
      }
      case AllocatorAction::kFreeRequested: {
        const auto block = live_.find(event.address);
        ASSERT_NE(block, live_.end());
        allocator_.Free(block->second);
        live_.erase(block);
        break;
      }
      default:
        break;  // completions follow by themselves on one stream
    }
  }

  RecordedDevice device_;
  CachingAllocator allocator_;
  std::map<uint64_t, CachingAllocator::BlockId> live_;
};

TEST(Recordings, every_address_segment_and_peak_is_the_recorded_one) {
  const std::vector<std::string> paths = prism::testing::MemoryRecordings();
  if (paths.empty()) {
    GTEST_SKIP() << "the recordings are not beside the sources";
  }
  EXPECT_EQ(paths.size(), 14U);
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const auto recording = prism::testing::ReadMemoryRecording(path);
    ASSERT_TRUE(recording.has_value());
    RecordingReplay replay;
    replay.Run(*recording);
    ASSERT_FALSE(HasFailure());
    const PoolStatistics& all = replay.statistics().all;
    const std::map<std::string, int64_t> ours = {{"peak_reserved", all.reserved_bytes.peak},
                                                 {"peak_allocated", all.allocated_bytes.peak},
                                                 {"peak_active", all.active_bytes.peak},
                                                 {"final_reserved", all.reserved_bytes.current},
                                                 {"final_allocated", all.allocated_bytes.current}};
    size_t compared = 0;
    for (const auto& [column, value] : prism::testing::ExpectedOf(path)) {
      if (const auto own = ours.find(column); own != ours.end()) {
        EXPECT_EQ(own->second, std::stoll(value)) << column;
        ++compared;
      }
    }
    EXPECT_EQ(compared, ours.size());
  }
}

}  // namespace
}  // namespace prism::replayer
