// What FSDP holds in addition to its shards, by hand and in whole stages.
#include "replayer/memory/sharded_parameters.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "graph/job/stage_layers.h"
#include "replayer/memory/layer_tensors.h"
#include "replayer/memory/model_states.h"
#include "replayer/memory/stage_memory.h"
#include "replayer/memory/stage_units.h"

namespace prism::replayer {
namespace {

constexpr int64_t kMiB = 1 << 20;

// An embedding and a head of 4 M parameters each, in the root or not, two layers of 8 M between.
ShardedChunk SmallChunk(bool root = true) {
  return {{{4 * kMiB, root}, {8 * kMiB}, {8 * kMiB}, {4 * kMiB, root, true}}};
}

graph::TrainingStyle ShardedStyle() {
  graph::TrainingStyle style;
  style.data_parallel = graph::DataParallelKind::kFsdp;
  style.gradient_type = DataType::kFloat32;
  return style;
}

void RunForward(ShardedParameters* parameters) {
  for (int64_t place = 0; place < 4; ++place) {
    parameters->BeginForward(0, place);
    parameters->EndForward(0, place);
  }
  parameters->EndForward(0);
}

void RunBackward(ShardedParameters* parameters, bool last) {
  for (int64_t place = 3; place >= 0; --place) {
    parameters->BeginBackward(0, place);
    parameters->MakeGradients(0, place);
    parameters->EndBackward(0, place);
  }
  parameters->EndBackward(0, last);
}

int64_t PeakMiB(const MemoryAccount& account) {
  const Result<StageMemory> memory = account.Finish();
  return memory.ok() ? memory->peak_allocated / kMiB : -1;
}

// Copies of the root, 16 MiB, stay; a layer has 16 of copies, and the flat buffer in which they
// arrive is kept until the next one was copied out.
TEST(ShardedParameters, a_forward_pass_holds_one_layer_and_the_root) {
  MemoryAccount account({}, 1 << 30);
  ShardedParameters parameters({}, ShardedStyle(), false, {SmallChunk()}, &account);
  RunForward(&parameters);
  EXPECT_EQ(PeakMiB(account), 16 + 16 + 16);
}

// Forward: copies of one layer and its flat buffer. Backward: the first layer's copies and its
// gradients, with the embedding in transit and the second layer's 32-bit copy. Nothing is left.
TEST(ShardedParameters, ends_of_their_own_are_gathered_when_they_run) {
  MemoryAccount account({}, 1 << 30);
  ShardedParameters parameters({}, ShardedStyle(), false, {SmallChunk(false)}, &account);
  RunForward(&parameters);
  EXPECT_EQ(PeakMiB(account), 16 + 16);
  RunBackward(&parameters, true);
  EXPECT_EQ(PeakMiB(account), 16 + 16 + 8 + 32);
  account.Allocate(72 * kMiB, MemoryUse::kActivations);
  EXPECT_EQ(PeakMiB(account), 72);
}

// At the end of the second layer: copies of the root, the first layer in transit, the head's
// gradients, the layer's own and their 32-bit copy.
TEST(ShardedParameters, a_backward_pass_scatters_layer_by_layer) {
  MemoryAccount account({}, 1 << 30);
  ShardedParameters parameters({}, ShardedStyle(), false, {SmallChunk()}, &account);
  RunForward(&parameters);
  RunBackward(&parameters, true);
  EXPECT_EQ(PeakMiB(account), 16 + 16 + 8 + 16 + 32);
}

// Kept gathered, 48 MiB, and summed in 32 bit, 96: with the second micro-batch's gradients of the
// largest unit, or the flat copy of one unit more.
TEST(ShardedParameters, a_pipeline_sums_whole_gradients_and_scatters_them_once) {
  MemoryAccount account({}, 1 << 30);
  graph::TrainingStyle style = ShardedStyle();
  style.reshard_after_forward = false;
  ShardedParameters parameters({}, style, true, {SmallChunk()}, &account);
  for (const bool last : {false, true}) {
    RunForward(&parameters);
    RunBackward(&parameters, last);
  }
  EXPECT_EQ(PeakMiB(account), 48 + 96 + 16);
  // Nothing is left, and the next iteration needs the same again, plus what is allocated now.
  account.Allocate(8 * kMiB, MemoryUse::kActivations);
  for (const bool last : {false, true}) {
    RunForward(&parameters);
    RunBackward(&parameters, last);
  }
  EXPECT_EQ(PeakMiB(account), 48 + 96 + 16 + 8);
}

// Shards of gradients, 24 MiB, belong to a separate stream: they are freed in the next iteration,
// and their memory is not used by anything else.
TEST(ShardedParameters, scattered_gradients_live_until_the_next_iteration) {
  MemoryAccount account({}, 1 << 30);
  ShardedChunk chunk = SmallChunk(false);
  for (ShardedChunk::Unit& unit : chunk.units) {
    unit.shard = unit.elements / 4;
  }
  ShardedParameters parameters({}, ShardedStyle(), false, {chunk}, &account);
  RunForward(&parameters);
  RunBackward(&parameters, true);
  const int64_t reserved = account.reserved_bytes();
  account.Allocate(200 * kMiB, MemoryUse::kActivations);
  EXPECT_EQ(PeakMiB(account), 200 + 24);
  EXPECT_EQ(account.reserved_bytes(), reserved + 200 * kMiB);
  parameters.BeginIteration();
  account.Allocate(24 * kMiB, MemoryUse::kActivations);
  EXPECT_EQ(PeakMiB(account), 200 + 24);
  // For two micro-batches one shard is kept.
  for (const bool last : {false, true}) {
    RunForward(&parameters);
    RunBackward(&parameters, last);
  }
  account.Allocate(200 * kMiB, MemoryUse::kActivations);
  EXPECT_EQ(PeakMiB(account), 200 + 24 + 200 + 24);
}

// Megatron's FSDP keeps them in a buffer that counts as state.
TEST(ShardedParameters, other_modules_keep_gradients_as_states) {
  MemoryAccount account({}, 1 << 30);
  ShardedChunk chunk = SmallChunk();
  for (ShardedChunk::Unit& unit : chunk.units) {
    unit.shard = unit.elements;
  }
  graph::TrainingStyle style = ShardedStyle();
  style.fused_norm = true;
  ShardedParameters parameters({}, style, false, {chunk}, &account);
  RunForward(&parameters);
  RunBackward(&parameters, true);
  EXPECT_EQ(PeakMiB(account), 16 + 16 + 8 + 16 + 32);
}

graph::JobSpec PipelineJob() {
  graph::JobSpec job;
  job.model.block = graph::BlockKind::kLlama;
  job.model.layers = 32;
  job.model.hidden = 4096;
  job.model.heads = job.model.kv_heads = 32;
  job.model.ffn = 14336;
  job.model.vocab = 32000;
  job.model.tied_embeddings = false;
  job.parallel.pp = 4;
  job.parallel.dp = 8;
  job.seq_len = 2048;
  job.micro_batch_size = 1;
  job.global_batch_size = 32;
  job.recompute = graph::Recompute::kFull;
  job.zero_stage = 3;
  return job;
}

// With dp 8 and ep 2, four ranks hold the same experts; in a group of four shards, two do. Experts
// are one tensor, the last.
TEST(ShardedParameters, experts_of_hybrid_shards_are_divided_within_a_group) {
  graph::JobSpec job = PipelineJob();
  job.parallel.pp = 1;
  job.parallel.ep = 2;
  job.model.moe = {.experts = 8, .topk = 2, .expert_ffn = 2048};
  graph::TrainingStyle style = ShardedStyle();
  const StageParameters layer = ParametersOfLayer(job, 0);
  const int64_t experts = 4 * 3 * 2048 * 4096;
  const std::vector<int64_t> whole = ShardsOf(layer, job, style);
  style.shard_size = 4;
  const std::vector<int64_t> hybrid = ShardsOf(layer, job, style);
  EXPECT_EQ(whole.back(), experts / 4);
  EXPECT_EQ(hybrid.back(), experts / 2);
  ASSERT_EQ(whole.size(), hybrid.size());
  EXPECT_EQ(hybrid.front(), 2 * whole.front());
}

// As many micro-batches as stages: all are in flight at once either way, but gradients of one of
// two chunks are scattered before those of the other exist.
TEST(ShardedParameters, interleaved_stages_sum_one_chunk_after_the_other) {
  graph::JobSpec job = PipelineJob();
  graph::TrainingStyle style = ShardedStyle();
  style.reshard_after_forward = false;
  const Result<StageMemory> plain = PredictStageMemory(job, style, 0);
  job.parallel.vpp = 2;
  const Result<StageMemory> interleaved = PredictStageMemory(job, style, 0);
  ASSERT_TRUE(plain.ok() && interleaved.ok());
  const int64_t sums_of_chunk = 4 * 4 * int64_t{243'300'000};  // float32, of four layers
  EXPECT_GT(plain->peak_allocated - interleaved->peak_allocated, sums_of_chunk / 2);
}

// With or without a head at the chunk's end.
TEST(ShardedParameters, the_workload_shards_as_many_units_as_a_chunk_has) {
  graph::JobSpec job = PipelineJob();
  graph::TrainingStyle style;
  style.built_in = true;
  for (const int32_t stage : {0, 1, 3}) {
    const StageUnits units(job, style, stage, {}, {});
    EXPECT_EQ(static_cast<int64_t>(units.Sharded(0).units.size()), units.CountOf(0)) << stage;
  }
}

// Two or more ranks hold each state once; the rest of the difference is rounding.
TEST(ShardedParameters, more_replicas_hold_less_by_their_states) {
  graph::JobSpec job = PipelineJob();
  job.parallel.pp = 1;
  job.global_batch_size = job.parallel.dp;
  const auto allocated = [&](int32_t dp) {
    job.parallel.dp = dp;
    job.global_batch_size = dp;
    const Result<StageMemory> memory = PredictStageMemory(job, ShardedStyle(), 0);
    return static_cast<double>(memory.ok() ? memory->peak_allocated : 0);
  };
  constexpr double kParameters = 32 * 243.3e6 + 2 * 32000 * 4096;
  EXPECT_NEAR(allocated(8) - allocated(16), 16 * kParameters / 16, 0.02 * kParameters);
}

// torch's pipeline stages: buffers of all messages, and the last stage its logits if they are
// returned. The first chunk of the first stage receives nothing, and nor does the last chunk of the
// last stage in the backward pass.
TEST(ShardedParameters, stages_of_torch_keep_messages_and_logits_of_all_micro_batches) {
  graph::JobSpec job = PipelineJob();
  graph::TrainingStyle style = ShardedStyle();
  const int64_t message = 2048 * 4096 * 2;
  const auto bytes = [&](int32_t stage) {
    int64_t sum = 0;
    for (const Tensor& tensor : TorchStageTensors(job, style, stage, 1)) {
      sum += tensor.bytes;
    }
    return sum;
  };
  EXPECT_EQ(bytes(0), 4 * message);
  EXPECT_EQ(bytes(1), (3 + 4) * message);
  EXPECT_EQ(bytes(3), 3 * message);
  style.keeps_pipeline_outputs = true;
  EXPECT_EQ(bytes(3), 3 * message + 4 * 2048 * graph::PaddedVocab(job) * 2);
  style.keeps_pipeline_outputs = false;
  job.parallel.vpp = 2;
  EXPECT_EQ(bytes(0), (3 + 2 * 4) * message);
  EXPECT_EQ(bytes(3), (2 * 3 + 4) * message);
}

// Megatron-Core: --microbatch-group-size-per-virtual-pipeline-stage.
TEST(StageMemory, larger_groups_of_micro_batches_hold_more_chunks) {
  graph::JobSpec job = PipelineJob();
  job.parallel.vpp = 4;
  job.global_batch_size = 20 * job.parallel.dp;
  job.zero_stage = 1;
  EXPECT_DOUBLE_EQ(4 * MicrobatchesInFlight(job, {}, 3), 3 * 4 + 1);
  EXPECT_DOUBLE_EQ(4 * MicrobatchesInFlight(job, {}, 3, 5), 3 * 5 + 1);
  const Result<StageMemory> usual = PredictStageMemory(job, {}, 3);
  StageMemoryOptions options;
  options.microbatch_group = 5;
  const Result<StageMemory> grouped = PredictStageMemory(job, {}, 3, options);
  ASSERT_TRUE(usual.ok() && grouped.ok());
  const int64_t chunk = 2 * LayerTensors(job, {}, 0).saved_bytes();
  EXPECT_EQ(grouped->peak_allocated - usual->peak_allocated, 3 * chunk);
}

// If the scores are tensors, so are their gradients: of the dropout's output, of its input.
TEST(StageMemory, unfused_attention_has_gradients_of_its_scores) {
  const graph::JobSpec job = PipelineJob();
  const auto backward = [&](graph::AttentionKind kind) {
    graph::TrainingStyle style;
    style.attention = kind;
    int64_t sum = 0;
    for (const Tensor& tensor : LayerTensors(job, style, 0).backward) {
      sum += std::string_view(tensor.what) == "gradients of scores" ? tensor.bytes : 0;
    }
    return sum;
  };
  EXPECT_EQ(backward(graph::AttentionKind::kUnfused), 2 * 32 * 2048 * 2048 * 2);
  EXPECT_EQ(backward(graph::AttentionKind::kFlash), 0);
}

}  // namespace
}  // namespace prism::replayer
