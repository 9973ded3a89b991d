// The memory of nanotron's iterations against counts by hand.
#include "replayer/memory/nanotron_memory.h"

#include <gtest/gtest.h>

namespace prism::replayer {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Hidden states of 16 MiB, feed-forward tensors of 64 MiB, logits of 512 MiB, no data parallelism.
graph::JobSpec Job() {
  graph::JobSpec job;
  job.model = {.name = "Llama",
               .source = {},
               .block = graph::BlockKind::kLlama,
               .layers = 4,
               .hidden = 2048,
               .heads = 32,
               .kv_heads = 32,
               .ffn = 8192,
               .vocab = 65536,
               .moe = {},
               .latent = {}};
  job.seq_len = 4096;
  job.micro_batch_size = 1;
  job.global_batch_size = 4;
  return job;
}

graph::TrainingStyle Style() {
  graph::TrainingStyle style;
  style.memory = graph::MemoryPattern::kNanotron;
  return style;
}

StageMemory Predict(const graph::JobSpec& job, int64_t collectives, int64_t device_bytes) {
  StageMemoryOptions options;
  options.pending.collectives = collectives;
  options.device_bytes = device_bytes;
  const Result<StageMemory> memory = PredictStageMemory(job, Style(), 0, options);
  EXPECT_TRUE(memory.ok());
  return *memory;
}

constexpr int64_t kRoom = int64_t{1} << 50;

TEST(NanotronMemory, peak_of_one_rank_is_that_counted_by_hand) {
  const graph::JobSpec job = Job();
  const int64_t layer = 2048 * (4 * 2048 + 3 * 8192) + 2 * 2048;
  const int64_t states = 18 * (4 * layer + 65536 * 2048 + 2048);
  // Input, norm, q k v, keys and values, output, middle, norm; gate and up, silu, product.
  const int64_t saved = 4 * ((1 + 1 + 3 + 2 + 1 + 1 + 1) * 16 + 4 * 64) * kMiB;
  const int64_t softmax = 4 * 4096 * 32 * 4;
  const int64_t head =
      (2 * 16 + 2 * 1024) * kMiB;  // its input and norm, logits and softmax in float32
  const int64_t workspaces = 64 * kMiB;
  const double expected = static_cast<double>(states + saved + softmax + head + workspaces);
  EXPECT_NEAR(static_cast<double>(Predict(job, 0, kRoom).peak_allocated), expected, 4.0 * kMiB);
}

TEST(NanotronMemory, hosts_ahead_keep_what_is_scattered) {
  graph::JobSpec job = Job();
  job.parallel.tp = 2;
  job.sequence_parallel = true;
  const int64_t without = Predict(job, 0, kRoom).peak_reserved;
  // Every second collective scatters 16 MiB; some of that is reserved for the backward pass anyway.
  const int64_t more = Predict(job, 40, kRoom).peak_reserved - without;
  EXPECT_GT(more, 8 * 16 * kMiB);
  EXPECT_LE(more, 20 * 16 * kMiB);
  EXPECT_EQ(Predict(job, 40, kRoom).peak_allocated, Predict(job, 0, kRoom).peak_allocated);
}

TEST(NanotronMemory, large_jobs_leave_nothing_pending) {
  graph::JobSpec job = Job();
  job.parallel.tp = 2;
  job.parallel.dp = 256;
  job.zero_stage = 1;
  job.global_batch_size = 1024;
  EXPECT_EQ(Predict(job, 40, kRoom).peak_reserved, Predict(job, 0, kRoom).peak_reserved);
}

// On 256 ranks those of large models alone, as published peaks of 8B and 80B, 1B and 3B show.
TEST(NanotronMemory, pipelines_of_large_models_leave_nothing_pending_on_half_as_many) {
  graph::JobSpec job = Job();
  job.parallel.tp = 2;
  job.parallel.pp = 4;
  job.parallel.dp = 32;
  job.zero_stage = 1;
  job.global_batch_size = 256;
  EXPECT_GT(Predict(job, 40, kRoom).peak_reserved, Predict(job, 0, kRoom).peak_reserved);
  job.model.hidden = 4096;
  EXPECT_EQ(Predict(job, 40, kRoom).peak_reserved, Predict(job, 0, kRoom).peak_reserved);
  job.parallel.dp = 16;
  EXPECT_GT(Predict(job, 40, kRoom).peak_reserved, Predict(job, 0, kRoom).peak_reserved);
}

TEST(NanotronMemory, a_full_device_gives_back_what_is_pending) {
  graph::JobSpec job = Job();
  job.parallel.tp = 2;
  job.micro_batch_size = 4;
  job.global_batch_size = 16;
  const int64_t wanted = Predict(job, 100, kRoom).peak_reserved;
  const int64_t room = wanted - 64 * kMiB;
  EXPECT_LT(Predict(job, 100, room).peak_reserved, room);
}

// Its passes keep what they keep without recomputation and with parts of sequences.
TEST(NanotronMemory, what_the_passes_do_not_describe_is_refused) {
  graph::JobSpec job = Job();
  job.parallel.tp = 2;
  EXPECT_TRUE(PredictStageMemory(job, Style(), 0, {}).ok());
  for (const graph::Recompute recompute : {graph::Recompute::kSelective, graph::Recompute::kFull}) {
    job.recompute = recompute;
    EXPECT_EQ(PredictStageMemory(job, Style(), 0, {}).status().message(),
              "recomputation is not described for nanotron");
  }
  job.recompute = graph::Recompute::kNone;
  job.sequence_parallel = false;
  EXPECT_EQ(PredictStageMemory(job, Style(), 0, {}).status().message(),
            "nanotron is described with sequence parallelism only");
  job.parallel.tp = 1;
  EXPECT_TRUE(PredictStageMemory(job, Style(), 0, {}).ok());
}

}  // namespace
}  // namespace prism::replayer
