#include "slicer/record/memory_tracker.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slicer/record_script.h"

namespace prism::slicer {
namespace {

struct Tracked {
  Definitions definitions;
  MemoryTracker tracker;
};

Tracked Track(const RecordScript& script) {
  Tracked tracked;
  for (const ScriptedRecord& scripted : script.records()) {
    if (scripted.record.kind == channel::RecordKind::kDefine) {
      EXPECT_TRUE(tracked.definitions.Add(scripted.record.define, scripted.payload).ok());
    }
    EXPECT_TRUE(tracked.tracker.Push(scripted.record, tracked.definitions).ok());
  }
  return tracked;
}

std::map<std::string, int64_t> Classes(const graph::MemoryProfile& profile) {
  std::map<std::string, int64_t> classes;
  for (const graph::MemoryClass& memory_class : profile.at_peak) {
    classes[memory_class.name] = memory_class.bytes;
  }
  return classes;
}

// Weights of 100, optimizer state of 40; forward keeps 20 and drops 3, backward needs 5, the
// optimizer 1. The peak is in backward: 100 + 40 + 20 + 5, plus the cuBLAS workspace.
RecordScript TrainingScript() {
  constexpr int64_t kWorkspace = 33'554'432;
  RecordScript script;
  script.Block(true, 0x1000, 100);
  script.Marker("optimizer state", true);
  script.Block(true, 0x2000, 40);
  script.Marker("optimizer state", false);
  for (int i = 0; i < 2; ++i) {
    script.Marker("iteration", true);
    script.Marker("forward", true);
    if (i == 0) {
      script.Block(true, 0x9000, kWorkspace);
    }
    script.Block(true, 0x3000, 20);
    script.Block(true, 0x4000, 3);
    script.Block(false, 0x4000, 3);
    script.Marker("forward", false);
    script.Marker("backward", true);
    script.Block(true, 0x4000, 5, script.Context("aten::mul", {2, 3}));
    script.Block(false, 0x4000, 5);
    script.Block(false, 0x3000, 20);
    script.Marker("backward", false);
    script.Marker("optimizer", true);
    script.Block(true, 0x4000, 1);
    script.Block(false, 0x4000, 1);
    script.Marker("optimizer", false);
    script.Marker("iteration", false);
  }
  return script;
}

TEST(MemoryTracker, classes_sum_to_the_peak) {
  const Tracked tracked = Track(TrainingScript());
  const graph::MemoryProfile profile = tracked.tracker.Profile(tracked.definitions, 1);
  EXPECT_EQ(profile.peak_allocated, 33'554'432 + 165);
  const std::map<std::string, int64_t> expected = {{"parameters", 100},
                                                   {"optimizer", 40},
                                                   {"activations", 20},
                                                   {"temporaries", 5},
                                                   {"buffers", 33'554'432}};
  EXPECT_EQ(Classes(profile), expected);
  EXPECT_EQ(profile.steady_allocated, 33'554'432 + 140);
  EXPECT_EQ(profile.peak_op, "aten::mul [2,3] bfloat16");
  EXPECT_EQ(profile.peak_phase, "iteration/backward");
  EXPECT_TRUE(tracked.tracker.Warnings().empty());
}

// cuBLAS takes its workspace with the first product, before the first optimizer step; another
// with the first of autograd's thread. A weight or its gradient may be as large.
TEST(MemoryTracker, workspaces_are_buffers) {
  constexpr int64_t kWorkspace = 33'554'432;
  RecordScript script;
  const uint32_t product = script.Context("aten::mm", {64, 64});
  script.Block(true, 0x1000, kWorkspace, script.Context("aten::empty", {4096, 4096}));
  script.Block(true, 0x2000, kWorkspace, product);
  script.Matmul(64);
  script.InBackward(true);
  script.OnThread(1);
  for (const uint64_t address : {0x3000, 0x4000, 0x5000}) {
    script.Block(true, address, kWorkspace, product);
    script.Matmul(64);
  }
  script.OnThread(0);
  script.InBackward(false);
  script.Marker("iteration", true);
  script.Marker("iteration", false);
  const Tracked tracked = Track(script);
  const std::map<std::string, int64_t> expected = {
      {"parameters", kWorkspace}, {"gradients", 2 * kWorkspace}, {"buffers", 2 * kWorkspace}};
  EXPECT_EQ(Classes(tracked.tracker.Profile(tracked.definitions, 0)), expected);
}

// A handle has one for each stream on which it is used.
TEST(MemoryTracker, each_stream_has_a_workspace) {
  constexpr int64_t kWorkspace = 33'554'432;
  RecordScript script;
  const uint32_t product = script.Context("aten::mm", {64, 64});
  for (const uint16_t stream : {uint16_t{0}, uint16_t{7}, uint16_t{20}}) {
    script.Block(true, 0x1000U * (stream + 1U), kWorkspace, product);
    script.Matmul(64, stream);
    script.Matmul(64, stream);
  }
  script.Marker("iteration", true);
  script.Marker("iteration", false);
  const Tracked tracked = Track(script);
  const std::map<std::string, int64_t> expected = {{"buffers", 3 * kWorkspace}};
  EXPECT_EQ(Classes(tracked.tracker.Profile(tracked.definitions, 0)), expected);
}

// A result of a product may be as large, too.
TEST(MemoryTracker, what_is_freed_is_no_workspace) {
  constexpr int64_t kWorkspace = 33'554'432;
  RecordScript script;
  const uint32_t product = script.Context("aten::mm", {64, 64});
  script.Block(true, 0x1000, kWorkspace, product);
  script.Matmul(64);
  script.Block(false, 0x1000, kWorkspace);
  script.Block(true, 0x2000, kWorkspace, product);
  script.Matmul(64);
  script.Block(true, 0x3000, 100);
  script.Marker("iteration", true);
  script.Marker("iteration", false);
  const Tracked tracked = Track(script);
  const std::map<std::string, int64_t> expected = {{"parameters", 100}, {"buffers", kWorkspace}};
  EXPECT_EQ(Classes(tracked.tracker.Profile(tracked.definitions, 0)), expected);
}

// What a repeated forward pass keeps for its backward pass, until the next forward pass.
TEST(MemoryTracker, what_recomputation_keeps_is_an_activation) {
  RecordScript script;
  script.Block(true, 0x1000, 100);
  for (int i = 0; i < 2; ++i) {
    script.Marker("iteration", true);
    script.Marker("forward", true);
    script.Marker("forward", false);
    script.Marker("backward", true);
    script.Marker("recompute", true);
    script.Block(true, 0x2000, 64);
    script.Marker("recompute", false);
    script.Block(true, 0x3000, 8);
    script.Block(false, 0x3000, 8);
    script.Block(false, 0x2000, 64);
    script.Marker("backward", false);
    script.Marker("iteration", false);
  }
  const Tracked tracked = Track(script);
  const std::map<std::string, int64_t> expected = {
      {"parameters", 100}, {"activations", 64}, {"temporaries", 8}};
  EXPECT_EQ(Classes(tracked.tracker.Profile(tracked.definitions, 1)), expected);
}

// The batch of the first step is allocated when the first optimizer step begins.
TEST(MemoryTracker, what_goes_in_the_first_iteration_is_no_parameter) {
  RecordScript script;
  script.Block(true, 0x1000, 100);
  script.Block(true, 0x2000, 7);
  for (int i = 0; i < 2; ++i) {
    script.Marker("iteration", true);
    script.Block(false, 0x2000, 7);
    script.Block(true, 0x2000, 7);
    script.Marker("iteration", false);
  }
  const Tracked tracked = Track(script);
  const graph::MemoryProfile profile = tracked.tracker.Profile(tracked.definitions, 0);
  const std::map<std::string, int64_t> expected = {{"parameters", 100}, {"buffers", 7}};
  EXPECT_EQ(Classes(profile), expected);
  EXPECT_EQ(profile.peak_phase, "iteration") << "of equal peaks the one inside";
}

TEST(MemoryTracker, what_backward_leaves_behind_is_a_gradient) {
  RecordScript script;
  script.Marker("iteration", true);
  script.Marker("backward", true);
  script.Block(true, 0x1000, 64);
  script.Marker("backward", false);
  script.Marker("iteration", false);
  const Tracked tracked = Track(script);
  const std::map<std::string, int64_t> expected = {{"gradients", 64}};
  EXPECT_EQ(Classes(tracked.tracker.Profile(tracked.definitions, 0)), expected);
}

// No range names a pass: autograd's flag distinguishes forward from backward, even before the first
// optimizer step.
TEST(MemoryTracker, passes_are_told_by_autograd) {
  RecordScript script;
  script.Block(true, 0x1000, 100);
  for (int i = 0; i < 3; ++i) {
    script.Block(true, 0x2000, 20);  // kept for backward
    script.Block(true, 0x3000, 3);
    script.Block(false, 0x3000, 3);
    script.InBackward(true);
    script.Block(true, 0x4000, 50);  // a gradient, to the next step
    script.Block(true, 0x3000, 7);
    script.Block(false, 0x3000, 7);
    script.Block(false, 0x2000, 20);
    script.InBackward(false);
    if (i > 0) {
      script.Marker("iteration", false);
    }
    script.Marker("iteration", true);
    script.Marker("Optimizer.step#SGD.step", true);
    if (i == 0) {
      script.Block(true, 0x5000, 40);
    }
    script.Marker("Optimizer.step#SGD.step", false);
    script.Block(false, 0x4000, 50);
  }
  const Tracked tracked = Track(script);
  const graph::MemoryProfile profile = tracked.tracker.Profile(tracked.definitions, 1);
  EXPECT_EQ(profile.peak_allocated, 100 + 20 + 50 + 7 + 40);
  const std::map<std::string, int64_t> expected = {{"parameters", 100},
                                                   {"activations", 20},
                                                   {"gradients", 50},
                                                   {"temporaries", 7},
                                                   {"optimizer", 40}};
  EXPECT_EQ(Classes(profile), expected);
  EXPECT_TRUE(tracked.tracker.Warnings().empty());
}

TEST(MemoryTracker, a_peak_before_training_hides_not_that_of_training) {
  RecordScript script;
  script.Block(true, 0x1000, 100);
  script.Block(true, 0x2000, 900);  // a copy of the weights while they are read
  script.Block(false, 0x2000, 900);
  script.Block(true, 0x2000, 20);
  script.InBackward(true);
  script.Block(true, 0x4000, 50, script.Context("aten::mul", {2, 3}));
  script.Block(false, 0x2000, 20);
  script.InBackward(false);
  script.Marker("iteration", true);
  script.Marker("iteration", false);
  const Tracked tracked = Track(script);
  const graph::MemoryProfile profile = tracked.tracker.Profile(tracked.definitions, 0);
  EXPECT_EQ(profile.peak_allocated, 1000);
  const std::vector<graph::Warning> warnings = tracked.tracker.Warnings();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0].code, "peak_before_training");
  EXPECT_EQ(warnings[0].example,
            "1000 B were allocated before the first iteration; the peak of training is 170 B: "
            "parameters 100 B, gradients 50 B, activations 20 B");
}

// A program may try out which batch fits before its first step; the peak is there.
TEST(MemoryTracker, what_is_freed_before_the_first_iteration_is_no_parameter) {
  RecordScript script;
  script.Block(true, 0x1000, 64);
  script.Block(true, 0x2000, 900);
  script.Block(false, 0x2000, 900);
  script.Marker("iteration", true);
  script.Block(true, 0x2000, 8);
  script.Block(false, 0x2000, 8);
  script.Marker("iteration", false);
  const Tracked tracked = Track(script);
  const std::map<std::string, int64_t> expected = {{"parameters", 64}, {"temporaries", 900}};
  EXPECT_EQ(Classes(tracked.tracker.Profile(tracked.definitions, 0)), expected);
}

TEST(MemoryTracker, framework_count_that_differs_is_a_warning) {
  RecordScript script;
  script.Block(true, 0x1000, 512);
  channel::Record stats = {};
  stats.kind = channel::RecordKind::kAllocatorStats;
  stats.stats.peak_allocated = 1024;
  stats.stats.peak_reserved = 2 << 20;
  script.Add(stats);
  const Tracked tracked = Track(script);
  ASSERT_EQ(tracked.tracker.Warnings().size(), 1U);
  EXPECT_EQ(tracked.tracker.Warnings()[0].code, "allocated_bytes_differ");
  EXPECT_EQ(tracked.tracker.Profile(tracked.definitions, 0).peak_reserved, 2 << 20);
}

TEST(MemoryTracker, outside_is_taken_at_its_peak_and_named_by_group) {
  RecordScript script;
  script.CommInit(4, "tp", 8, 0, 1);
  script.Outside("context", 0, 400);
  script.Outside("nccl setup", 4, 30);
  script.Outside("nccl ring", 4, 12);
  script.Outside("nccl setup", 4, -30);
  script.Outside("nccl ring", 4, -12);
  const Tracked tracked = Track(script);
  const graph::MemoryProfile profile = tracked.tracker.Profile(tracked.definitions, 0);
  ASSERT_EQ(profile.outside.size(), 2U);
  EXPECT_EQ(profile.outside[0].name, "context");
  EXPECT_EQ(profile.outside[1].name, "nccl:tp");
  EXPECT_EQ(profile.outside[1].bytes, 42);
}

channel::Record Stats(int64_t allocated, int64_t reserved) {
  channel::Record stats = {};
  stats.kind = channel::RecordKind::kAllocatorStats;
  stats.stats = {.peak_allocated = allocated,
                 .peak_reserved = reserved,
                 .allocated = allocated,
                 .reserved = reserved};
  return stats;
}

// The allocator's segments are those that contain blocks; one is mapped in two parts.
TEST(MemoryTracker, segments_without_blocks_are_another_librarys) {
  RecordScript script;
  script.Segment(100, 0x1000);
  script.Segment(100, 0x1000 + 100);
  script.Block(true, 0x1000 + 50, 120);
  script.Add(Stats(120, 200));
  script.Segment(1000, 0x9000);
  script.Segment(500, 0x5000);
  script.Segment(500, 0x5000, /*is_alloc=*/false);
  script.Segment(300, 0x7000);
  const Tracked tracked = Track(script);
  const graph::MemoryProfile profile = tracked.tracker.Profile(tracked.definitions, 0);
  EXPECT_EQ(profile.peak_reserved, 200);
  ASSERT_EQ(profile.outside.size(), 1U);
  EXPECT_EQ(profile.outside[0].name, "other allocations");
  EXPECT_EQ(profile.outside[0].bytes, 1500);
  EXPECT_TRUE(tracked.tracker.Warnings().empty());
}

TEST(MemoryTracker, a_segment_that_ends_where_a_block_begins_does_not_contain_it) {
  RecordScript script;
  script.Segment(100, 0x1000);
  script.Segment(200, 0x1000 + 100);
  script.Block(true, 0x1000 + 100, 50);
  script.Block(false, 0x1000 + 100, 50);
  script.Block(true, 0x1000 + 100, 50);
  script.Add(Stats(50, 200));
  const Tracked tracked = Track(script);
  const graph::MemoryProfile profile = tracked.tracker.Profile(tracked.definitions, 0);
  ASSERT_EQ(profile.outside.size(), 1U);
  EXPECT_EQ(profile.outside[0].bytes, 100);
}

// As one in C++ that calls cudaMalloc itself.
TEST(MemoryTracker, a_program_without_framework_allocates_by_itself) {
  RecordScript script;
  script.Segment(1000, 0x9000);
  script.Kernel("own");
  const Tracked tracked = Track(script);
  const graph::MemoryProfile profile = tracked.tracker.Profile(tracked.definitions, 0);
  EXPECT_EQ(profile.peak_reserved, 0);
  ASSERT_EQ(profile.outside.size(), 1U);
  EXPECT_EQ(profile.outside[0].name, "other allocations");
  EXPECT_EQ(profile.outside[0].bytes, 1000);
  EXPECT_TRUE(tracked.tracker.Warnings().empty());
}

TEST(MemoryTracker, an_allocator_that_tells_nothing_is_a_warning) {
  RecordScript script;
  script.Segment(1000, 0x9000);
  script.Kernel("fill", 0, script.Context("aten::fill_", {4}));
  const Tracked tracked = Track(script);
  const graph::MemoryProfile profile = tracked.tracker.Profile(tracked.definitions, 0);
  EXPECT_EQ(profile.peak_reserved, 1000);
  EXPECT_TRUE(profile.outside.empty());
  ASSERT_EQ(tracked.tracker.Warnings().size(), 1U);
  EXPECT_EQ(tracked.tracker.Warnings()[0].code, "allocator_not_seen");
}

TEST(MemoryTracker, layout_hash_ignores_where_the_device_begins) {
  const auto hash = [](uint64_t base, int64_t bytes) {
    RecordScript script;
    script.Block(true, base, 512);
    script.Block(true, base + 512, bytes);
    const Tracked tracked = Track(script);
    return tracked.tracker.Profile(tracked.definitions, 0).layout_hash;
  };
  EXPECT_EQ(hash(0x1000, 512), hash(0x900000, 512));
  EXPECT_NE(hash(0x1000, 512), hash(0x1000, 1024));
}

TEST(MemoryTracker, layout_hash_ignores_in_which_order_blocks_are_freed_together) {
  struct Free {
    uint64_t address;
    int64_t bytes;
  };
  const auto hash = [](const std::vector<Free>& frees, bool apart) {
    RecordScript script;
    script.Block(true, 0x1000, 512);
    script.Block(true, 0x1200, 1024);
    script.Block(false, frees[0].address, frees[0].bytes);
    if (apart) {
      script.Block(true, 0x9000, 512);
    }
    script.Block(false, frees[1].address, frees[1].bytes);
    const Tracked tracked = Track(script);
    return tracked.tracker.Profile(tracked.definitions, 0).layout_hash;
  };
  const Free small{0x1000, 512};
  const Free large{0x1200, 1024};
  EXPECT_EQ(hash({small, large}, false), hash({large, small}, false));
  EXPECT_NE(hash({small, large}, true), hash({large, small}, true));
  EXPECT_NE(hash({small, large}, true), hash({small, large}, false));
}

TEST(MemoryTracker, says_who_holds_what_now) {
  RecordScript script;
  script.Block(true, 0x1000, 4096);
  script.Marker("iteration", true);
  script.Marker("forward", true);
  script.Block(true, 0x3000, 1024);
  script.Block(true, 0x4000, 512);
  script.Block(false, 0x4000, 512);
  const Tracked tracked = Track(script);
  const HeldMemory held = tracked.tracker.Held(tracked.definitions, 1);
  ASSERT_EQ(held.classes.size(), 2U);
  EXPECT_EQ(held.classes[0].name, "parameters");
  EXPECT_EQ(held.classes[0].bytes, 4096);
  EXPECT_EQ(held.classes[1].name, "activations");
  EXPECT_EQ(held.classes[1].bytes, 1024);
  ASSERT_EQ(held.largest.size(), 1U);
  EXPECT_EQ(held.largest[0].bytes, 4096);
}

}  // namespace
}  // namespace prism::slicer
