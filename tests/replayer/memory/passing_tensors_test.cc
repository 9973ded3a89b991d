#include "replayer/memory/passing_tensors.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "replayer/memory/caching_allocator.h"
#include "replayer/memory/stage_memory.h"

namespace prism::replayer {
namespace {

constexpr int64_t kDeviceBytes = int64_t{1} << 44;

int64_t DrawnBytes(Rng* rng) {
  const int64_t unit = rng->UniformInt(0, 2) == 0 ? 50'000 : 700'000;
  return unit * rng->UniformInt(1, 40);
}

// Allocates and frees at random, then requests some sizes together: what they would get is told
// exactly, without a change, as long as the device is not asked.
void CheckDrawnRequests(Rng* rng) {
  SimulatedDevice device(kDeviceBytes);
  CachingAllocator allocator({}, &device);
  std::vector<CachingAllocator::BlockId> blocks;
  for (int64_t i = rng->UniformInt(0, 200); i > 0; --i) {
    if (!blocks.empty() && rng->UniformInt(0, 2) == 0) {
      std::swap(blocks[static_cast<size_t>(rng->UniformInt(0, std::ssize(blocks) - 1))],
                blocks.back());
      allocator.Free(blocks.back());
      blocks.pop_back();
    } else {
      blocks.push_back(*allocator.Allocate(DrawnBytes(rng), 0));
    }
  }
  std::vector<Tensor> tensors;
  for (int64_t i = rng->UniformInt(0, 8); i > 0; --i) {
    tensors.push_back({"drawn", DrawnBytes(rng)});
  }
  const PassingTensors passing(tensors, {});
  const std::vector<BlockSet::Entry> before = allocator.AllFree();
  const int64_t device_calls = allocator.statistics().device_allocations;
  const std::optional<int64_t> told = allocator.BytesFromFree(passing.rounded(), 0);
  EXPECT_EQ(allocator.AllFree(), before);
  int64_t bytes = 0;
  std::vector<CachingAllocator::BlockId> together;
  for (const Tensor& tensor : tensors) {
    together.push_back(*allocator.Allocate(tensor.bytes, 0));
    bytes += allocator.SizeOf(together.back());
  }
  const bool asked = allocator.statistics().device_allocations > device_calls;
  EXPECT_EQ(told.has_value(), !asked);
  EXPECT_EQ(told.value_or(bytes), bytes);
  std::ranges::for_each(together, [&](CachingAllocator::BlockId block) { allocator.Free(block); });
  EXPECT_EQ(allocator.AllFree() == before, !asked);
}

TEST(PassingTensors, would_get_the_blocks_that_they_get) {
  Rng rng(5, "passing tensors");
  for (int i = 0; i < 2000; ++i) {
    CheckDrawnRequests(&rng);
  }
}

graph::JobSpec DrawnJob(Rng* rng) {
  graph::JobSpec job;
  job.model.layers = 32;
  job.model.hidden = 256 * rng->UniformInt(1, 24);
  job.model.heads = job.model.kv_heads = 8;
  job.model.ffn = 4 * job.model.hidden;
  job.model.vocab = 32000;
  job.seq_len = job.model.seq_len = 2048;
  job.parallel.tp = int32_t{1} << rng->UniformInt(0, 2);
  job.parallel.pp = int32_t{1} << rng->UniformInt(0, 3);
  job.parallel.vpp = job.parallel.pp == 1 ? 1 : int32_t{1} << rng->UniformInt(0, 2);
  job.parallel.dp = int32_t{1} << rng->UniformInt(0, 4);
  job.micro_batch_size = rng->UniformInt(1, 3);
  job.global_batch_size =
      job.micro_batch_size * job.parallel.dp * job.parallel.pp * rng->UniformInt(1, 8);
  job.zero_stage = static_cast<int32_t>(rng->UniformInt(0, 3));
  job.sequence_parallel = rng->UniformInt(0, 1) == 0;
  job.recompute = static_cast<graph::Recompute>(rng->UniformInt(0, 2));
  return job;
}

graph::TrainingStyle DrawnStyle(const graph::JobSpec& job, Rng* rng) {
  graph::TrainingStyle style;
  style.built_in = rng->UniformInt(0, 2) == 0;
  style.fused_norm = rng->UniformInt(0, 1) == 0;
  style.dropout = rng->UniformInt(0, 1) == 0;
  style.reshard_after_forward = rng->UniformInt(0, 1) == 0;
  if (job.zero_stage == 3 && !style.built_in) {
    style.data_parallel = graph::DataParallelKind::kFsdp;
  }
  style.attention =
      rng->UniformInt(0, 1) == 0 ? graph::AttentionKind::kUnfused : graph::AttentionKind::kFlash;
  return style;
}

TEST(PassingTensors, need_not_be_placed_to_tell_the_memory_of_a_stage) {
  Rng rng(6, "passing tensors");
  for (int i = 0; i < 400; ++i) {
    const graph::JobSpec job = DrawnJob(&rng);
    const graph::TrainingStyle style = DrawnStyle(job, &rng);
    StageMemoryOptions options;
    options.allocator.expandable_segments = rng.UniformInt(0, 5) == 0;
    const auto stage = static_cast<int32_t>(rng.UniformInt(0, job.parallel.pp - 1));
    const Result<StageMemory> told = PredictStageMemory(job, style, stage, options);
    options.every_pass = true;
    const Result<StageMemory> whole = PredictStageMemory(job, style, stage, options);
    ASSERT_TRUE(told.ok() && whole.ok());
    EXPECT_EQ(told->peak_reserved, whole->peak_reserved);
    EXPECT_EQ(told->peak_allocated, whole->peak_allocated);
    EXPECT_EQ(told->at_peak, whole->at_peak);
  }
}

}  // namespace
}  // namespace prism::replayer
