#include "replayer/memory/pass_repeats.h"

#include <vector>

#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "replayer/memory/stage_memory.h"

namespace prism::replayer {
namespace {

constexpr int64_t kDeviceBytes = int64_t{1} << 40;
constexpr int64_t kPairs = 20;

// `in_flight` micro-batches of two tensors each, pair by pair; calls `beside` in every pair.
// Returns the number of pairs to leave out, the first time that there are any.
template <typename Beside>
int64_t LeftOut(size_t in_flight, Beside beside) {
  MemoryAccount account({}, kDeviceBytes);
  PassRepeats repeats(kPairs, &account);
  BlocksInFlight micro_batches;
  const auto forward = [&] {
    micro_batches.push_back({{account.Allocate(3 << 20, MemoryUse::kActivations),
                              account.Allocate(30 << 20, MemoryUse::kActivations)}});
  };
  for (size_t i = 0; i < in_flight; ++i) {
    forward();
  }
  for (int64_t pair = 0; pair < kPairs; ++pair) {
    forward();
    for (const MemoryAccount::Block& block : micro_batches.front().front()) {
      account.Free(block);
    }
    micro_batches.pop_front();
    beside(pair, &account);
    if (const int64_t left_out = repeats.PairsToLeaveOut(micro_batches); left_out > 0) {
      EXPECT_EQ(left_out % static_cast<int64_t>(in_flight + 1), 0);
      EXPECT_LT(pair + left_out, kPairs);
      return left_out;
    }
  }
  return 0;
}

TEST(PassRepeats, are_left_out_once_everything_is_where_it_was) {
  const auto nothing = [](int64_t /*pair*/, MemoryAccount* /*account*/) {};
  EXPECT_EQ(LeftOut(0, nothing), kPairs - 2);
  EXPECT_GT(LeftOut(3, nothing), 0);
  EXPECT_EQ(LeftOut(kPairs, nothing), 0);
}

TEST(PassRepeats, are_none_where_a_block_or_a_segment_stays) {
  EXPECT_EQ(
      LeftOut(1, [](int64_t /*pair*/,
                    MemoryAccount* account) { account->Allocate(512, MemoryUse::kActivations); }),
      0);
  EXPECT_EQ(LeftOut(1,
                    [](int64_t pair, MemoryAccount* account) {
                      account->Free(account->Allocate((40 + pair) << 20, MemoryUse::kTemporaries));
                    }),
            0);
}

TEST(PassRepeats, change_no_memory_of_a_stage) {
  Rng rng(3, "pass repeats");
  for (int i = 0; i < 150; ++i) {
    graph::JobSpec job;
    job.model.layers = 32;
    job.model.hidden = 256 * rng.UniformInt(1, 12);
    job.model.heads = job.model.kv_heads = 8;
    job.model.ffn = 4 * job.model.hidden;
    job.model.vocab = 32000;
    job.seq_len = job.model.seq_len = 2048;
    job.parallel.tp = int32_t{1} << rng.UniformInt(0, 2);
    job.parallel.pp = int32_t{1} << rng.UniformInt(0, 3);
    job.parallel.dp = 2;
    job.micro_batch_size = rng.UniformInt(1, 3);
    job.global_batch_size = job.micro_batch_size * job.parallel.dp * rng.UniformInt(1, 40);
    job.zero_stage = static_cast<int32_t>(rng.UniformInt(0, 1));
    job.sequence_parallel = rng.UniformInt(0, 1) == 0;
    job.recompute = static_cast<graph::Recompute>(rng.UniformInt(0, 2));
    StageMemoryOptions options;
    options.allocator.expandable_segments = rng.UniformInt(0, 3) == 0;
    const auto stage = static_cast<int32_t>(rng.UniformInt(0, job.parallel.pp - 1));
    const Result<StageMemory> told = PredictStageMemory(job, {}, stage, options);
    options.every_pass = true;
    const Result<StageMemory> whole = PredictStageMemory(job, {}, stage, options);
    ASSERT_TRUE(told.ok() && whole.ok());
    EXPECT_EQ(told->peak_reserved, whole->peak_reserved);
    EXPECT_EQ(told->peak_allocated, whole->peak_allocated);
    EXPECT_EQ(told->at_peak, whole->at_peak);
  }
}

// The last round of an interleaved schedule may have fewer micro-batches than there are stages.
TEST(Passes, micro_batches_need_not_be_a_multiple_of_the_stages) {
  graph::JobSpec job;
  job.model.layers = 24;
  job.model.hidden = 1024;
  job.model.heads = job.model.kv_heads = 8;
  job.model.ffn = 4096;
  job.model.vocab = 32000;
  job.seq_len = job.model.seq_len = 2048;
  job.parallel.pp = 4;
  job.parallel.dp = 2;
  job.parallel.vpp = 3;
  graph::TrainingStyle style;
  style.built_in = false;
  style.data_parallel = graph::DataParallelKind::kFsdp;
  for (int32_t stage = 0; stage < 4; ++stage) {
    int64_t peak_of_one = 0;
    for (int64_t microbatches = 1; microbatches <= 12; ++microbatches) {
      job.global_batch_size = 2 * microbatches * job.micro_batch_size;
      const Result<StageMemory> memory = PredictStageMemory(job, style, stage);
      ASSERT_TRUE(memory.ok()) << microbatches;
      peak_of_one = microbatches == 1 ? memory->peak_allocated : peak_of_one;
      EXPECT_GE(memory->peak_allocated, peak_of_one) << microbatches;
    }
  }
}

}  // namespace
}  // namespace prism::replayer
