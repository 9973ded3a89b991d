#include "graph/job/job.h"

#include <gtest/gtest.h>

#include "graph/job/cluster.h"
#include "graph/job/stage_layers.h"

namespace prism::graph {
namespace {

// Brown et al. 2020, table 2.1.
JobSpec Gpt3() {
  JobSpec job;
  job.model.block = BlockKind::kGpt;
  job.model.layers = 96;
  job.model.hidden = 12288;
  job.model.heads = 96;
  job.model.kv_heads = 96;
  job.model.ffn = 4 * 12288;
  job.model.vocab = 50257;
  job.model.seq_len = 2048;
  job.seq_len = 2048;
  job.global_batch_size = 1536;
  return job;
}

// Dubey et al. 2024, table 3.
ModelSpec Llama3_8b() {
  ModelSpec model;
  model.block = BlockKind::kLlama;
  model.layers = 32;
  model.hidden = 4096;
  model.heads = 32;
  model.kv_heads = 8;
  model.ffn = 14336;
  model.vocab = 128256;
  model.seq_len = 8192;
  model.tied_embeddings = false;
  return model;
}

// 96 (12 h² + 13 h) + (50257 + 2048) h + 2 h.
TEST(Job, gpt3_has_174_604_million_parameters) {
  EXPECT_EQ(ModelParameters(Gpt3().model), 174'604'259'328);
}

// The number that the model card of Llama 3 8B and its checkpoint give.
TEST(Job, llama3_8b_has_8_030_million_parameters) {
  EXPECT_EQ(ModelParameters(Llama3_8b()), 8'030'261'248);
}

TEST(Job, vocabulary_is_padded_to_whole_tiles_of_every_rank) {
  JobSpec job;
  job.model.vocab = 50257;
  job.parallel.tp = 8;
  EXPECT_EQ(PaddedVocab(job), 51200);  // 50 * 128 * 8
}

// Narayanan et al., SC21, equation 3: 96 B s l h² (1 + s/6h + V/16lh) with full recomputation,
// where attention is counted over all pairs. We count a causal mask's half, so the s/6h term
// halves; without recomputation layers are counted three times instead of four.
TEST(Job, flops_agree_with_narayanan_after_halving_attention) {
  JobSpec job = Gpt3();
  const double b = 1536;
  const double s = 2048;
  const double l = 96;
  const double h = 12288;
  const double v = 50257;
  const double attention_term = s / (6 * h) / 2;
  const double full = 96 * b * s * l * h * h * (1 + attention_term + v / (16 * l * h));
  const double none = 72 * b * s * l * h * h * (1 + attention_term + v / (12 * l * h));
  EXPECT_NEAR(ModelFlops(job) / none, 1.0, 1e-12);
  EXPECT_EQ(HardwareFlops(job), ModelFlops(job));
  job.recompute = Recompute::kFull;
  EXPECT_NEAR(HardwareFlops(job) / full, 1.0, 1e-12);
  job.recompute = Recompute::kSelective;
  // Once more the causal core: half of 4 b s² h l.
  EXPECT_NEAR(HardwareFlops(job) / (none + 2 * b * s * s * h * l), 1.0, 1e-12);
}

// One layer, one token: QKV 4·(4+2·2) = 32 weights of width 4 with head dimension 2 and one
// key-value head, projection 16, SwiGLU 3·4·8 = 96; logits 4·16 = 64; attention 2·s·h = 8.
TEST(Job, flops_of_a_hand_counted_llama) {
  JobSpec job;
  job.model.block = BlockKind::kLlama;
  job.model.layers = 1;
  job.model.hidden = 4;
  job.model.heads = 2;
  job.model.kv_heads = 1;
  job.model.ffn = 8;
  job.model.vocab = 16;
  job.seq_len = 1;
  job.global_batch_size = 1;
  EXPECT_DOUBLE_EQ(ModelFlops(job), 3 * (2 * (32 + 16 + 96) + 8 + 2 * 64));
}

// Mixtral 8x7B: 46.7 billion parameters, of which a token uses 12.9 (arXiv 2401.04088, table 1).
TEST(Job, counts_all_experts_as_parameters_and_the_chosen_ones_as_work) {
  JobSpec job;
  job.model.block = BlockKind::kLlama;
  job.model.layers = 32;
  job.model.hidden = 4096;
  job.model.heads = 32;
  job.model.kv_heads = 8;
  job.model.vocab = 32000;
  job.model.tied_embeddings = false;
  job.model.moe = {.experts = 8, .topk = 2, .expert_ffn = 14336};
  job.global_batch_size = 1;
  job.seq_len = 1;
  EXPECT_NEAR(static_cast<double>(ModelParameters(job.model)) / 46.7e9, 1.0, 2e-3);
  // Six FLOPs per weight that a token uses; the embedding is looked up, not multiplied.
  const double embedding = 32000.0 * 4096.0;
  EXPECT_NEAR((ModelFlops(job) / 6 + embedding) / 12.9e9, 1.0, 2e-3);
}

// DeepSeek-V3: 671 billion parameters (arXiv 2412.19437, section 2), multi-token head excluded.
TEST(Job, counts_the_projections_of_latent_attention) {
  ModelSpec model;
  model.block = BlockKind::kLlama;
  model.layers = 61;
  model.hidden = 7168;
  model.heads = 128;
  model.kv_heads = 128;
  model.ffn = 18432;
  model.vocab = 129280;
  model.tied_embeddings = false;
  model.head_dim = 128;
  model.moe = {
      .experts = 256, .topk = 8, .expert_ffn = 2048, .shared_expert_ffn = 2048, .dense_layers = 3};
  model.latent = {.q_rank = 1536, .kv_rank = 512, .rope_dim = 64, .value_dim = 128};
  EXPECT_NEAR(static_cast<double>(ModelParameters(model)) / 671e9, 1.0, 1e-3);
}

TEST(Job, a_window_leaves_every_second_layer_fewer_keys) {
  JobSpec job;
  job.model.layers = 2;
  job.model.hidden = job.model.heads = job.model.kv_heads = 1;
  job.model.ffn = job.model.vocab = 1;
  job.seq_len = 1024;
  const double full = ModelFlops(job);
  job.model.sliding_window = 1024;
  EXPECT_EQ(ModelFlops(job), full);
  // A window of 2 tokens: 1 key for the first query, 2 for the others, 2 - 2/1024 on average (the
  // causal half is counted), against 512; 4 FLOPs per key forward, three times that in total.
  job.model.sliding_window = 2;
  EXPECT_NEAR(full - ModelFlops(job), 3 * 1024 * 4 * (512 - (2 - 2.0 / 1024)), 1e-3);
}

TEST(Job, layers_fall_evenly_to_chunks_or_leave_room_for_embedding_and_head) {
  EXPECT_EQ(LayersOfChunk(96, 16, 15).begin, 90);
  EXPECT_EQ(LayersOfChunk(96, 16, 15).end, 96);
  // 126 layers over 16 stages: 7, 14 times 8, 7.
  EXPECT_EQ(LayersOfChunk(126, 16, 0).end, 7);
  EXPECT_EQ(LayersOfChunk(126, 16, 1).begin, 7);
  EXPECT_EQ(LayersOfChunk(126, 16, 14).end, 119);
  EXPECT_EQ(LayersOfChunk(126, 16, 15).end, 126);
  EXPECT_FALSE(LayersDivide(96, 9));
  EXPECT_FALSE(LayersDivide(2, 4));
  // 70 layers over 9 chunks: seven of 8, the first and the last of 7.
  EXPECT_EQ(LayersOfChunk(70, 9, 0).end, 7);
  EXPECT_EQ(LayersOfChunk(70, 9, 1).end, 15);
  EXPECT_EQ(LayersOfChunk(70, 9, 8).begin, 63);
  EXPECT_EQ(LayersOfChunk(70, 9, 8).end, 70);
}

TEST(Job, ends_of_a_pipeline_may_hold_other_numbers_of_layers) {
  JobSpec job;
  job.model.layers = 12;
  job.parallel.pp = 4;
  TrainingStyle style;
  style.first_stage_layers = 1;
  style.last_stage_layers = 3;
  const int64_t ends[] = {1, 5, 9, 12};
  for (int64_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(LayersOfChunk(job, style, stage).begin, stage == 0 ? 0 : ends[stage - 1]);
    EXPECT_EQ(LayersOfChunk(job, style, stage).end, ends[stage]);
  }
  style.last_stage_layers = 0;
  EXPECT_EQ(LayersOfChunk(job, style, 3).end, 12);
  EXPECT_EQ(LayersOfChunk(job, style, 1).begin, 1);
  style.first_stage_layers = 11;  // which leaves nothing for two stages
  EXPECT_EQ(LayersOfChunk(job, style, 0).end, 3);
  EXPECT_FALSE(HasUnevenEnds(job, style));
}

TEST(Job, two_stages_are_uneven_where_they_hold_all_layers) {
  JobSpec job;
  job.model.layers = 12;
  job.parallel.pp = 2;
  TrainingStyle style;
  style.first_stage_layers = 5;
  EXPECT_EQ(LayersOfChunk(job, style, 0).end, 5);
  EXPECT_EQ(LayersOfChunk(job, style, 1).begin, 5);
  EXPECT_EQ(LayersOfChunk(job, style, 1).end, 12);
  style.last_stage_layers = 7;
  EXPECT_EQ(LayersOfChunk(job, style, 0).end, 5);
  EXPECT_EQ(LayersOfChunk(job, style, 1).begin, 5);
  style.last_stage_layers = 6;  // one is left over
  EXPECT_FALSE(HasUnevenEnds(job, style));
  EXPECT_EQ(LayersOfChunk(job, style, 0).end, 6);
  style.last_stage_layers = 0;
  job.parallel.vpp = 2;
  EXPECT_FALSE(HasUnevenEnds(job, style));
  job.parallel.pp = job.parallel.vpp = 1;
  EXPECT_FALSE(HasUnevenEnds(job, style));
}

TEST(Job, balanced_stages_count_the_head_as_layers) {
  JobSpec job;
  job.model.layers = 16;
  job.model.hidden = 2048;
  job.model.ffn = 8192;
  job.model.vocab = 131072;  // the head costs as much as four layers: 20 in all
  job.parallel.pp = 8;
  TrainingStyle style;
  style.balanced_stages = true;
  const auto layers = [&](int64_t stage) {
    const LayerRange range = LayersOfChunk(job, style, stage);
    return range.end - range.begin;
  };
  // Shares of 2.5: a stage ends with the layer that fills it; the head is by itself after the last.
  EXPECT_EQ(layers(0), 3);
  EXPECT_EQ(layers(1), 2);
  EXPECT_EQ(layers(6), 1);
  EXPECT_EQ(layers(7), 0);
  job.parallel.pp = 2;
  EXPECT_EQ(layers(0), 10);
  EXPECT_EQ(layers(1), 6);
  style.balanced_stages = false;
  EXPECT_EQ(layers(1), 8);
}

TEST(ParameterTable, finds_by_key_whatever_the_order_given) {
  const ParameterTable table({{"b", 2, "s", "", Mark::kFitted}, {"a", 1, "s", "", Mark::kAssumed}});
  EXPECT_EQ(table.Value("a"), 1);
  EXPECT_EQ(table.all().front().key, "a");
  EXPECT_EQ(table.Find("c"), nullptr);
  EXPECT_EQ(table.ValueOr("c", 7), 7);
}

TEST(ParameterTable, a_missing_key_is_our_bug) {
  const ParameterTable table;
  EXPECT_DEATH((void)table.Value("gpu.missing"), "gpu.missing");
}

}  // namespace
}  // namespace prism::graph
