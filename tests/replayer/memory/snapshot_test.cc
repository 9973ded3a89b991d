// Memory snapshots: Python reads what is written, and torch's own tools accept it.
#include "replayer/memory/snapshot.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "replayer/memory/caching_allocator.h"
#include "tests/support/allocator_script.h"
#include "tests/support/scratch_folder.h"

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

// The lines that kReadScript prints of the same snapshot.
std::string Text(const MemorySnapshot& snapshot) {
  constexpr std::array<const char*, 9> kActions = {
      "alloc",        "free_requested", "free_completed", "segment_alloc",
      "segment_free", "segment_map",    "segment_unmap",  "oom",
      "snapshot"};
  constexpr std::array<const char*, 3> kStates = {"inactive", "active_allocated",
                                                  "active_pending_free"};
  std::string text = fmt::format("{:d}\n", snapshot.expandable_segments);
  for (const SegmentState& segment : snapshot.segments) {
    text +=
        fmt::format("{} {} {} {} {:d}\n", segment.address, segment.bytes, segment.stream,
                    segment.pool == PoolKind::kSmall ? "small" : "large", segment.is_expandable);
    for (const BlockInfo& block : segment.blocks) {
      text += fmt::format("  {} {} {} {}\n", block.address, block.bytes, block.requested_bytes,
                          kStates.at(static_cast<size_t>(block.state)));
    }
  }
  for (const SnapshotEvent& entry : snapshot.events) {
    text += fmt::format("{} {} {} {} {} {}\n", kActions.at(static_cast<size_t>(entry.event.action)),
                        entry.event.address, entry.event.bytes, entry.event.stream, entry.time_us,
                        entry.frame);
  }
  return text;
}

constexpr const char* kReadScript = R"(import pickle, sys
data = pickle.load(open(sys.argv[1], 'rb'))
print(int(data['allocator_settings']['expandable_segments']))
for s in data['segments']:
    print(s['address'], s['total_size'], s['stream'], s['segment_type'], int(s['is_expandable']))
    for b in s['blocks']:
        print('  %d %d %d %s' % (b['address'], b['size'], b['requested_size'], b['state']))
for e in data['device_traces'][0]:
    frame = e['frames'][0]['name'] if e['frames'] else ''
    print(e['action'], e['addr'], e['size'], e['stream'], e['time_us'], frame)
)";

TEST(Snapshot, python_reads_what_was_written) {
  const ScratchFolder folder;
  const std::string file = folder / "snapshot.pickle";
  const std::string script = folder / "read.py";
  const std::string output = folder / "read.txt";
  std::ofstream(script) << kReadScript;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const MemorySnapshot snapshot = RandomSnapshot(seed, seed % 2 == 1);
    std::ofstream(file, std::ios::binary) << EncodeSnapshot(snapshot);
    const std::string command = "python3 " + script + " " + file + " > " + output;
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(*ReadFile(output), Text(snapshot));
  }
}

// The functions behind `python -m torch.cuda._memory_viz segment_plot|trace_plot|...`, on the file.
TEST(Snapshot, opens_in_the_viewer_of_torch) {
  const std::string viewer = PRISM_TORCH_DIR "/cuda/_memory_viz.py";
  if (!std::filesystem::exists(viewer)) {
    GTEST_SKIP() << "no torch wheel";
  }
  const ScratchFolder folder;
  const std::string file = folder / "snapshot.pickle";
  const std::string script = folder / "read.py";
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
  const std::string command = "python3 " + script + " " + viewer + " " + file;
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace prism::replayer
