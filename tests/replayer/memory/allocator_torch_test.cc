// The allocator's simulation against the caching allocator of libtorch on the virtual device: the
// same script, and every event and statistic equal.
#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "replayer/memory/allocator_config.h"
#include "replayer/memory/caching_allocator.h"
#include "tests/support/allocator_script.h"
#include "tests/support/preload.h"
#include "tests/support/scratch_folder.h"

namespace prism::replayer {
namespace {

using prism::testing::AllocatorScriptOptions;
using prism::testing::AllocatorStep;
using prism::testing::AllocatorStepKind;

// What the program said.
struct RealRun {
  std::vector<int64_t> streams;
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
  std::vector<AllocatorEvent> events;
  std::vector<std::array<int64_t, 4>> statistics;
};

// In the order of c10's enumeration.
AllocatorAction ActionOf(int number) {
  constexpr std::array kActions = {AllocatorAction::kAlloc,         AllocatorAction::kFreeRequested,
                                   AllocatorAction::kFreeCompleted, AllocatorAction::kSegmentAlloc,
                                   AllocatorAction::kSegmentFree,   AllocatorAction::kSegmentMap,
                                   AllocatorAction::kSegmentUnmap,  AllocatorAction::kSnapshot,
                                   AllocatorAction::kOutOfMemory};
  return kActions.at(static_cast<size_t>(number));
}

void ReadLine(const std::string& text, RealRun* run) {
  std::istringstream line(text);
  std::string kind;
  line >> kind;
  if (kind == "stream") {
    line >> run->streams.emplace_back();
  } else if (kind == "device") {
    line >> run->free_bytes >> run->total_bytes;
  } else if (kind == "trace") {
    int action = 0;
    AllocatorEvent event;
    line >> action >> event.address >> event.bytes >> event.stream;
    event.action = ActionOf(action);
    run->events.push_back(event);
  } else if (kind == "stat") {
    auto& stat = run->statistics.emplace_back();
    line >> stat[0] >> stat[1] >> stat[2] >> stat[3];
  }
}

RealRun RunReal(const std::vector<AllocatorStep>& script,
                int64_t streams,
                const std::string& settings) {
  const ScratchFolder folder;
  const std::string file = folder / "script.txt";
  {
    std::ofstream out(file);
    prism::testing::WriteScript(script, &out);
  }
  const std::string command = "PYTORCH_ALLOC_CONF='" + settings + "' LD_PRELOAD='" +
                              prism::testing::PreloadOf(PRISM_LIBRARY_DIR) +
                              "' " PRISM_ALLOCATOR_PROGRAM " " + std::to_string(streams) + " < " +
                              file;
  RealRun run;
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 256> line{};
  while (fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    ReadLine(line.data(), &run);
  }
  return run;
}

// As large as the real device, handing out the addresses that it handed out.
class ShadowDevice final : public AllocatorDevice {
 public:
  explicit ShadowDevice(const RealRun& run) : run_(run), free_bytes_(run.free_bytes) {
    for (const AllocatorEvent& event : run.events) {
      if (event.action == AllocatorAction::kSegmentAlloc ||
          event.action == AllocatorAction::kSegmentMap) {
        addresses_.push_back(event.address);
      }
    }
  }

  [[nodiscard]] int64_t total_bytes() const override { return run_.total_bytes; }

  [[nodiscard]] int64_t free_bytes() const override { return free_bytes_; }

  std::optional<uint64_t> Allocate(int64_t bytes) override {
    if (bytes > free_bytes_ || addresses_.empty()) {
      return std::nullopt;
    }
    free_bytes_ -= bytes;
    const uint64_t address = addresses_.front();
    addresses_.pop_front();
    return address;
  }

  void Free(uint64_t /*address*/, int64_t bytes) override { free_bytes_ += bytes; }

  uint64_t Reserve(int64_t /*bytes*/) override {
    return addresses_.empty() ? 0 : addresses_.front();
  }

  bool Map(uint64_t address, int64_t bytes) override {
    return address == addresses_.front() && Allocate(bytes).has_value();
  }

  void Unmap(uint64_t address, int64_t bytes) override { Free(address, bytes); }

  int64_t RecordEvent(int64_t /*stream*/) override { return 0; }

  [[nodiscard]] bool HasFinished(int64_t /*event*/) const override { return true; }

 private:
  const RealRun& run_;
  int64_t free_bytes_;
  std::deque<uint64_t> addresses_;
};

void RunScript(const std::vector<AllocatorStep>& script,
               const std::vector<int64_t>& streams,
               CachingAllocator* allocator) {
  std::vector<std::optional<CachingAllocator::BlockId>> blocks;
  for (const AllocatorStep& step : script) {
    const int64_t stream = streams[static_cast<size_t>(step.stream)];
    switch (step.kind) {
      case AllocatorStepKind::kAllocate:
        blocks.push_back(allocator->Allocate(step.value, stream));
        break;
      case AllocatorStepKind::kFree:
        if (const auto block = blocks[static_cast<size_t>(step.value)]) {
          allocator->Free(*block);
        }
        break;
      case AllocatorStepKind::kUse:
        if (const auto block = blocks[static_cast<size_t>(step.value)]) {
          allocator->RecordStream(*block, stream);
        }
        break;
      case AllocatorStepKind::kEmptyCache:
        allocator->EmptyCache();
        break;
    }
  }
}

std::vector<std::array<int64_t, 4>> AsPrinted(const AllocatorStatistics& statistics) {
  std::vector<std::array<int64_t, 4>> rows;
  for (const auto stat :
       {&PoolStatistics::allocation, &PoolStatistics::segment, &PoolStatistics::active,
        &PoolStatistics::inactive_split, &PoolStatistics::allocated_bytes,
        &PoolStatistics::reserved_bytes, &PoolStatistics::active_bytes,
        &PoolStatistics::inactive_split_bytes, &PoolStatistics::requested_bytes}) {
    for (const PoolStatistics* pool :
         {&statistics.all, &statistics.pools[0], &statistics.pools[1]}) {
      const AllocatorStat& value = pool->*stat;
      rows.push_back({value.current, value.peak, value.allocated, value.freed});
    }
  }
  rows.push_back({statistics.alloc_retries, statistics.out_of_memory, statistics.device_allocations,
                  statistics.device_frees});
  return rows;
}

// Which of several streams' events torch checks first depends on its hash table, and changes no
// state: consecutive completed frees are compared in order of address.
void SortCompletions(std::vector<AllocatorEvent>* events) {
  const auto completes = [](const AllocatorEvent& event) {
    return event.action == AllocatorAction::kFreeCompleted;
  };
  for (auto begin = events->begin(); begin != events->end();) {
    begin = std::find_if(begin, events->end(), completes);
    const auto end = std::find_if_not(begin, events->end(), completes);
    std::ranges::sort(begin, end, {}, &AllocatorEvent::address);
    begin = end;
  }
}

void ExpectEqual(const std::vector<AllocatorEvent>& ours,
                 const std::vector<AllocatorEvent>& theirs) {
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    ASSERT_EQ(static_cast<int>(ours[i].action), static_cast<int>(theirs[i].action))
        << "event " << i;
    ASSERT_EQ(ours[i].bytes, theirs[i].bytes) << "event " << i;
    ASSERT_EQ(ours[i].address, theirs[i].address) << "event " << i;
    ASSERT_EQ(ours[i].stream, theirs[i].stream) << "event " << i;
  }
  EXPECT_EQ(ours.size(), theirs.size());
}

struct Case {
  std::string settings;
  AllocatorScriptOptions script;
};

// Returns the statistics, to check what a case has exercised.
AllocatorStatistics Compare(const Case& test) {
  SCOPED_TRACE("settings '" + test.settings + "' seed " + std::to_string(test.script.seed));
  const std::vector<AllocatorStep> script = prism::testing::RandomAllocatorScript(test.script);
  RealRun real = RunReal(script, test.script.streams, test.settings);
  EXPECT_EQ(real.statistics.size(), 28U) << "the program did not end as it should";
  const Result<AllocatorConfig> config = ParseAllocatorConfig(test.settings);
  EXPECT_TRUE(config.ok()) << config.status().message();
  ShadowDevice device(real);
  CachingAllocator allocator(*config, &device);
  std::vector<AllocatorEvent> events;
  allocator.set_trace(&events);
  RunScript(script, real.streams, &allocator);
  SortCompletions(&events);
  SortCompletions(&real.events);
  ExpectEqual(events, real.events);
  EXPECT_EQ(AsPrinted(allocator.statistics()), real.statistics);
  return allocator.statistics();
}

AllocatorScriptOptions Script(uint64_t seed, int64_t streams, int64_t largest_mebibytes = 64) {
  return {
      .seed = seed, .steps = 3000, .streams = streams, .largest_bytes = largest_mebibytes << 20U};
}

TEST(AllocatorTorch, classic_segments_are_the_real_ones) {
  Compare({"", Script(1, 1)});
  Compare({"", Script(2, 3)});
}

TEST(AllocatorTorch, expandable_segments_are_the_real_ones) {
  Compare({"expandable_segments:True", Script(3, 1)});
  Compare({"expandable_segments:True", Script(4, 3)});
}

TEST(AllocatorTorch, settings_work_as_the_real_ones) {
  Compare({"max_split_size_mb:32", Script(5, 2)});
  Compare({"max_split_size_mb:64,max_non_split_rounding_mb:32", Script(6, 1, 256)});
  Compare({"roundup_power2_divisions:8", Script(7, 1)});
  Compare({"roundup_power2_divisions:[1:4,16:2,32:1,>:8],expandable_segments:True", Script(8, 2)});
  const AllocatorStatistics collected = Compare(
      {"garbage_collection_threshold:0.05,per_process_memory_fraction:0.5", Script(9, 2, 256)});
  EXPECT_GT(collected.device_frees, 100);
}

TEST(AllocatorTorch, a_full_device_ends_as_the_real_one) {
  for (const Case& test :
       {Case{"", Script(10, 2, 6 << 10)}, Case{"expandable_segments:True", Script(11, 2, 6 << 10)},
        Case{"max_split_size_mb:512", Script(12, 2, 6 << 10)},
        Case{"garbage_collection_threshold:0.6,per_process_memory_fraction:0.9",
             Script(13, 1, 6 << 10)}}) {
    const AllocatorStatistics statistics = Compare(test);
    EXPECT_GT(statistics.alloc_retries, 20);
    EXPECT_GT(statistics.out_of_memory, 20);
  }
}

}  // namespace
}  // namespace prism::replayer
