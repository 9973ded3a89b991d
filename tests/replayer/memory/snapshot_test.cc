// Memory snapshots: what is written is read again, and torch's own tools accept it.
#include "replayer/memory/snapshot.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/memory/caching_allocator.h"
#include "tests/support/allocator_script.h"

namespace prism::replayer {
namespace {

using prism::testing::AllocatorStepKind;

// A history of the simulated allocator, with names and times.
MemorySnapshot RandomSnapshot(uint64_t seed, bool expandable) {
  SimulatedDevice device(int64_t{16} << 30);
  AllocatorConfig config;
  config.expandable_segments = expandable;
  CachingAllocator allocator(config, &device);
  std::vector<AllocatorEvent> events;
  allocator.set_trace(&events);
  std::vector<CachingAllocator::BlockId> blocks;
  for (const auto& step : prism::testing::RandomAllocatorScript({.seed = seed, .steps = 400})) {
    if (step.kind == AllocatorStepKind::kAllocate) {
      blocks.push_back(*allocator.Allocate(step.value, 0));
    } else if (step.kind == AllocatorStepKind::kFree) {
      allocator.Free(blocks[static_cast<size_t>(step.value)]);
    } else {
      allocator.EmptyCache();
    }
  }
  MemorySnapshot snapshot;
  snapshot.segments = allocator.Segments();
  snapshot.expandable_segments = expandable;
  for (const AllocatorEvent& event : events) {
    const auto time_us = static_cast<int64_t>(1'700'000'000'000'000 + snapshot.events.size());
    snapshot.events.push_back({event, time_us, event.bytes % 3 == 0 ? "aten::mm" : ""});
  }
  return snapshot;
}

TEST(Snapshot, is_read_as_it_was_written) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const MemorySnapshot snapshot = RandomSnapshot(seed, seed % 2 == 1);
    const Result<MemorySnapshot> again = DecodeSnapshot(EncodeSnapshot(snapshot), "own");
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, snapshot);
  }
}

// The functions behind `python -m torch.cuda._memory_viz segment_plot|trace_plot|...`, on the file.
TEST(Snapshot, opens_in_the_viewer_of_torch) {
  const std::string viewer = PRISM_TORCH_DIR "/cuda/_memory_viz.py";
  if (!std::filesystem::exists(viewer)) {
    GTEST_SKIP() << "no torch wheel";
  }
  const std::filesystem::path folder = ::testing::TempDir();
  const std::filesystem::path file = folder / "prism_snapshot.pickle";
  const std::filesystem::path script = folder / "prism_snapshot.py";
  std::ofstream(file, std::ios::binary) << EncodeSnapshot(RandomSnapshot(7, false));
  std::ofstream(script) << "import importlib.util, pickle, sys\n"
                           "spec = importlib.util.spec_from_file_location('viz', sys.argv[1])\n"
                           "viz = importlib.util.module_from_spec(spec)\n"
                           "spec.loader.exec_module(viz)\n"
                           "data = pickle.load(open(sys.argv[2], 'rb'))\n"
                           "assert '<html' in viz.segment_plot(data).lower()\n"
                           "assert '<html' in viz.trace_plot(data).lower()\n"
                           "assert 'alloc' in viz.trace(data)\n"
                           "assert 'Total Reserved' in viz.segsum(data) or "
                           "'total' in viz.segsum(data).lower()\n"
                           "assert sum(s['total_size'] for s in data['segments']) > 0\n";
  const std::string command = "python3 " + script.string() + " " + viewer + " " + file.string();
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::filesystem::remove(file);
  std::filesystem::remove(script);
}

}  // namespace
}  // namespace prism::replayer
