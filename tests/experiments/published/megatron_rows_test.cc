// The effect of Megatron-LM's arguments on published rows, and the peak memory of their ranks.
#include <string>

#include <gtest/gtest.h>

#include "tests/experiments/published/one_row.h"

#include "experiments/published/row_plan.h"

namespace prism::launch {
namespace {

TEST(MegatronRows, peak_memory_is_predicted_or_the_reason_named) {
  auto fields = Gpt175B();
  Set(&fields, "peak_mem_gib", "60");
  const RowPlan dense = PlanRow(OneRow(fields).row());
  EXPECT_TRUE(dense.predicted_bytes.has_value());
  EXPECT_EQ(dense.cannot_predict_bytes, "");
  Set(&fields, "experts", "8");
  const RowPlan mixture = PlanRow(OneRow(fields).row());
  EXPECT_GT(mixture.predicted_bytes, dense.predicted_bytes);
  Set(&fields, "arch", "MoE, first 3 layers dense");
  EXPECT_LT(PlanRow(OneRow(fields).row()).predicted_bytes, mixture.predicted_bytes);
  Set(&fields, "framework", "nanotron");
  const RowPlan unknown = PlanRow(OneRow(fields).row());
  EXPECT_FALSE(unknown.predicted_bytes.has_value());
  EXPECT_EQ(unknown.cannot_predict_bytes,
            "memory of experts and latent attention under nanotron is not modelled");
}

// The first stage holds the most micro-batches, the last only the current one.
TEST(MegatronRows, peak_memory_is_that_of_the_rank_which_was_read) {
  auto fields = Gpt175B();
  Set(&fields, "peak_mem_gib", "60");
  const auto bytes = [&](const char* rank) {
    Set(&fields, "mem_rank", rank);
    return PlanRow(OneRow(fields).row()).predicted_bytes.value_or(0);
  };
  const double first = bytes("rank 0 (first pipeline stage)");
  EXPECT_LT(bytes("last rank (last pipeline stage)"), first);
  EXPECT_EQ(bytes("max of first/last node"), first);
}

TEST(MegatronRows, arguments_that_a_row_leaves_out_are_the_programs_defaults) {
  auto fields = Gpt175B();
  Set(&fields, "framework", "Megatron-LM / Megatron-Core CI");
  Set(&fields, "precision", "bf16");
  Set(&fields, "vocab", "");
  const RowPlan recipe = PlanRow(OneRow(fields).row());
  EXPECT_GT(recipe.job.parallel.vpp, 1);
  EXPECT_TRUE(recipe.style.fused_cross_entropy);
  Set(&fields, "extra", "tokenizer=;transformer_impl=transformer_engine");
  const RowPlan plain = PlanRow(OneRow(fields).row());
  EXPECT_EQ(plain.job.parallel.vpp, 1);
  EXPECT_EQ(plain.job.model.vocab, 50257);
  EXPECT_TRUE(plain.job.model.tied_embeddings);
  EXPECT_EQ(plain.style.gradient_type, DataType::kFloat32);
  EXPECT_EQ(plain.style.attention, graph::AttentionKind::kCudnn);
  EXPECT_TRUE(plain.style.dropout);
  EXPECT_FALSE(plain.style.fused_cross_entropy);
  EXPECT_FALSE(plain.style.overlap_grad_reduce);
  Set(&fields, "extra",
      "transformer_impl=local;hidden-dropout=0.0;overlap-grad-reduce;grad-reduce-in-bf16;"
      "untie-embeddings-and-output-weights");
  const RowPlan set = PlanRow(OneRow(fields).row());
  EXPECT_FALSE(set.job.model.tied_embeddings);
  EXPECT_EQ(set.style.gradient_type, DataType::kBfloat16);
  EXPECT_EQ(set.style.attention, graph::AttentionKind::kUnfused);
  EXPECT_FALSE(set.style.dropout);
  EXPECT_TRUE(set.style.overlap_grad_reduce);
}

TEST(MegatronRows, arguments_give_the_ranks_of_latent_attention_and_further_tokens) {
  auto fields = Gpt175B();
  Set(&fields, "extra", "multi-latent-attention;kv-lora-rank=64;qk-head-dim=16;transformer_impl=");
  graph::ModelSpec model = PlanRow(OneRow(fields).row()).job.model;
  EXPECT_EQ(model.latent, (graph::LatentAttention{0, 64, 64, 128}));
  EXPECT_EQ(model.head_dim, 16);
  EXPECT_EQ(model.mtp_layers, 0);
  Set(&fields, "extra",
      "multi-latent-attention;kv-lora-rank=64;q-lora-rank=192;qk-pos-emb-head-dim=8;v-head-dim=16;"
      "mtp-num-layers=2;transformer_impl=");
  model = PlanRow(OneRow(fields).row()).job.model;
  EXPECT_EQ(model.latent, (graph::LatentAttention{192, 64, 8, 16}));
  EXPECT_EQ(model.mtp_layers, 2);
}

TEST(MegatronRows, offloaded_modules_lower_the_peak_and_deferred_heads_raise_it) {
  auto fields = Gpt175B();
  Set(&fields, "peak_mem_gib", "60");
  Set(&fields, "recompute", "none");
  Set(&fields, "mem_rank", "last rank");
  const auto bytes = [&](const char* extra) {
    Set(&fields, "extra", std::string("transformer_impl=;") + extra);
    return PlanRow(OneRow(fields).row()).predicted_bytes.value_or(0);
  };
  const double usual = bytes("");
  EXPECT_LT(bytes("fine-grained-activation-offloading;offload-modules=[core_attn mlp_norm]"),
            usual);
  EXPECT_EQ(bytes("offload-modules=[core_attn]"), usual);
  Set(&fields, "pp", "96");  // a stage is one layer, the last, which keeps its own
  Set(&fields, "num_gpus", "768");
  Set(&fields, "dp", "1");
  EXPECT_EQ(bytes("fine-grained-activation-offloading;offload-modules=[core_attn mlp_norm]"),
            bytes(""));
  Set(&fields, "pp", "8");
  Set(&fields, "num_gpus", "128");
  Set(&fields, "dp", "2");
  const double two = bytes("defer-embedding-wgrad-compute;wgrad-deferral-limit=2");
  EXPECT_GT(two, usual);
  EXPECT_GT(bytes("defer-embedding-wgrad-compute"), two);
}

TEST(MegatronRows, arguments_give_groups_of_micro_batches_and_layers_of_the_ends) {
  auto fields = Gpt175B();
  Set(&fields, "peak_mem_gib", "60");
  Set(&fields, "mem_rank", "last rank");
  Set(&fields, "pp", "4");
  Set(&fields, "vpp", "3");
  Set(&fields, "global_batch", "60");  // not a multiple of the stages
  const auto bytes = [&](const char* extra) {
    Set(&fields, "extra", std::string("transformer_impl=;") + extra);
    return PlanRow(OneRow(fields).row()).predicted_bytes.value_or(0);
  };
  const double usual = bytes("");
  const double five = bytes("microbatch-group-size-per-virtual-pipeline-stage=5");
  EXPECT_GT(five, usual);
  EXPECT_GT(bytes("microbatch-group-size-per-virtual-pipeline-stage=6"), five);
  EXPECT_LT(bytes("decoder-last-pipeline-num-layers=2"), usual);
  Set(&fields, "dist_optimizer", "yes");
  const double sharded = bytes("");
  EXPECT_LT(sharded, usual);
  EXPECT_EQ(bytes("num-distributed-optimizer-instances=1"), sharded);
  const double halves = bytes("num-distributed-optimizer-instances=2");  // dp 2, cp 2
  EXPECT_GT(halves, sharded);
  EXPECT_LT(halves, usual);
  EXPECT_EQ(bytes("num-distributed-optimizer-instances=4"), usual);
}

// What nvidia-smi showed for software that loaded all of its kernels at the start.
TEST(MegatronRows, early_software_loads_all_kernels_at_the_start) {
  auto fields = Gpt175B();
  Set(&fields, "peak_mem_gib", "60");
  const auto outside = [&](const char* framework) {
    Set(&fields, "framework", framework);
    Set(&fields, "mem_kind", "nvidia-smi");
    const double device = PlanRow(OneRow(fields).row()).predicted_bytes.value_or(0);
    Set(&fields, "mem_kind", "reserved");
    return device - PlanRow(OneRow(fields).row()).predicted_bytes.value_or(0);
  };
  EXPECT_GT(outside("Megatron-LM"), outside("Megatron-Core") + 300e6);
}

// For rows that state neither GPUs nor replicas.
TEST(MegatronRows, release_runs_have_eight_nodes) {
  auto fields = Gpt175B();
  Set(&fields, "num_gpus", "");
  Set(&fields, "dp", "");
  Set(&fields, "tp", "2");
  Set(&fields, "pp", "4");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.parallel.dp, 1);
  Set(&fields, "note", "release run: number of nodes not public");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.parallel.dp, 8);
}

}  // namespace
}  // namespace prism::launch
