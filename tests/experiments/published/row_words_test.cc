// The meaning of words in published rows, and how rows that say less or something odd are read.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/published/one_row.h"

#include "experiments/published/row_plan.h"

namespace prism::launch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

Fields Mixture() {
  Fields fields = Gpt175B();
  Set(&fields, "framework", "Megatron-Core MoE");
  Set(&fields, "experts", "8");
  Set(&fields, "moe_topk", "2");
  Set(&fields, "moe_ffn", "4096");
  Set(&fields, "ep", "2");
  return fields;
}

RowPlan PlanOf(const Fields& fields) {
  return PlanRow(OneRow(fields).row());
}

RowPlan With(Fields fields, const std::string& column, const std::string& value) {
  Set(&fields, column, value);
  return PlanOf(fields);
}

uint32_t PartsOf(const std::string& text) {
  return With(Mixture(), "recompute", text).style.recompute_parts;
}

TEST(RowWords, parts_that_are_recomputed_are_whole_words) {
  EXPECT_EQ(PartsOf("selective modules [moe_act]"), graph::kRecomputeActivation);
  EXPECT_EQ(PartsOf("selective modules: layernorm+moe"),
            graph::kRecomputeNorm | graph::kRecomputeMoe);
  EXPECT_EQ(PartsOf("selective (moe, layernorm)"), graph::kRecomputeNorm | graph::kRecomputeMoe);
  EXPECT_EQ(PartsOf("selective activation checkpointing"), graph::kRecomputeCoreAttention);
  EXPECT_THAT(With(Mixture(), "recompute", "selective: teapots").assumptions,
              Contains(HasSubstr("teapots")));
}

TEST(RowWords, groups_of_keys_divide_the_heads) {
  EXPECT_EQ(With(Gpt175B(), "kv_heads", "8").job.model.kv_heads, 8);
  for (const char* odd : {"7", "192"}) {
    const RowPlan plan = With(Gpt175B(), "kv_heads", odd);
    EXPECT_EQ(plan.job.model.kv_heads, 96) << odd;
    EXPECT_THAT(plan.assumptions, Contains(HasSubstr("do not divide 96 heads"))) << odd;
  }
}

TEST(RowWords, recomputation_is_off_where_a_row_says_so_in_any_words) {
  const auto recompute = [](const char* text) {
    return With(Gpt175B(), "recompute", text).job.recompute;
  };
  for (const char* off : {"none", "no", "false", "0", "off", "disabled", "N/A", "-", "no recompute",
                          "off (default)", "not used"}) {
    EXPECT_EQ(recompute(off), graph::Recompute::kNone) << off;
  }
  EXPECT_THAT(With(Gpt175B(), "recompute", "foo").assumptions,
              Contains(HasSubstr("'foo' taken for selective")));
  for (const char* full : {"full", "True", "yes", "uniform", "full block 4 layers"}) {
    EXPECT_EQ(recompute(full), graph::Recompute::kFull) << full;
  }
}

TEST(RowWords, torchtitans_options_are_its_own) {
  Fields fields = Gpt175B();
  Set(&fields, "framework", "torchtitan");
  for (const char* by_op : {"selective", "selective op", "SAC", "selective (per-op)"}) {
    EXPECT_EQ(With(fields, "recompute", by_op).style.recompute_parts,
              graph::kRecomputeEverySecondMatmul)
        << by_op;
  }
  for (const char* by_layer : {"selective (layer)", "selective (every 2nd layer)"}) {
    EXPECT_EQ(With(fields, "recompute", by_layer).style.recompute_parts,
              graph::kRecomputeEverySecondLayer)
        << by_layer;
  }
}

TEST(RowWords, flags_are_words_or_digits) {
  EXPECT_TRUE(With(Gpt175B(), "sp", "1").job.sequence_parallel);
  EXPECT_TRUE(With(Gpt175B(), "sp", "on").job.sequence_parallel);
  EXPECT_FALSE(With(Gpt175B(), "sp", "0").job.sequence_parallel);
  Fields core = Gpt175B();
  Set(&core, "framework", "NeMo");
  EXPECT_TRUE(With(core, "sp", "not stated").job.sequence_parallel);  // its default
}

TEST(RowWords, stages_of_sharding_are_read_in_any_spelling) {
  const auto stage = [](const char* text) {
    return With(Gpt175B(), "zero_stage", text).job.zero_stage;
  };
  EXPECT_EQ(stage("ZeRO-3"), 3);
  EXPECT_EQ(stage("zero2"), 2);
  EXPECT_EQ(stage("zero_2"), 2);
  EXPECT_EQ(stage("ZeRO stage 3"), 3);
  EXPECT_EQ(stage("stage 1"), 1);
  EXPECT_EQ(stage("NO_SHARD"), 0);
  Fields fsdp = Gpt175B();
  Set(&fsdp, "framework", "LLM Foundry");
  Set(&fsdp, "tp", "1");
  Set(&fsdp, "pp", "1");
  Set(&fsdp, "dp", "128");
  Set(&fsdp, "global_batch", "128");
  EXPECT_EQ(With(fsdp, "zero_stage", "HYBRID_SHARD").style.shard_size, 8);
  EXPECT_EQ(With(fsdp, "zero_stage", "FULL_SHARD").style.shard_size, 0);
}

TEST(RowWords, formats_are_known_by_several_names) {
  const auto precision = [](const char* text) {
    return With(Gpt175B(), "precision", text).style.precision;
  };
  EXPECT_EQ(precision("Float8"), graph::Precision::kFloat8);
  EXPECT_EQ(precision("e4m3"), graph::Precision::kFloat8);
  EXPECT_EQ(precision("float16"), graph::Precision::kFloat16);
  EXPECT_EQ(precision("bfloat16"), graph::Precision::kBfloat16);
  const RowPlan unknown = With(Gpt175B(), "precision", "posit");
  EXPECT_THAT(unknown.assumptions, Contains(HasSubstr("not known")));
  EXPECT_GT(unknown.assumption_spread, 0.25);
}

TEST(RowWords, experts_are_whole_but_under_megatron_lms_arguments_and_nemo) {
  EXPECT_EQ(PlanOf(Mixture()).job.parallel.etp, 1);
  EXPECT_EQ(With(Mixture(), "etp", "4").job.parallel.etp, 4);
  EXPECT_EQ(With(Mixture(), "extra", "transformer_impl=local").job.parallel.etp, 8);
  EXPECT_EQ(With(Mixture(), "framework", "NeMo").job.parallel.etp, 8);
}

TEST(RowWords, dense_layers_of_a_mixture_have_a_width) {
  Fields fields = Mixture();
  Set(&fields, "arch", "MoE, first 3 layers dense");
  EXPECT_GT(PlanOf(fields).job.model.ffn, 0);
  EXPECT_EQ(PlanOf(Mixture()).job.model.ffn, 0);
}

TEST(RowWords, a_field_that_is_no_number_skips_its_row) {
  const RowPlan plan = With(Gpt175B(), "global_batch", "8-16");
  EXPECT_EQ(plan.cannot_predict, "global_batch: '8-16' is not a possible number");
  EXPECT_EQ(With(Gpt175B(), "vpp", "-1").cannot_predict, "vpp: '-1' is not a possible number");
  EXPECT_EQ(PlanOf(Gpt175B()).cannot_predict, "");
}

TEST(RowWords, what_is_counted_is_whole) {
  EXPECT_NE(With(Gpt175B(), "layers", "1.5").cannot_predict, "");
  EXPECT_NE(With(Gpt175B(), "dp", "0.5").cannot_predict, "");
  EXPECT_EQ(With(Gpt175B(), "layers", "96.0").cannot_predict, "");
  EXPECT_EQ(With(Gpt175B(), "params_b", "174.6").cannot_predict, "");
}

TEST(RowWords, flags_and_stages_of_unknown_words_are_told) {
  const RowPlan plain = PlanOf(Gpt175B());
  for (const char* column : {"sp", "dist_optimizer", "tp_comm_overlap", "dp_overlap", "compile"}) {
    const RowPlan odd = With(Gpt175B(), column, "perhaps");
    EXPECT_THAT(odd.assumptions, Contains(HasSubstr("'perhaps' is not known"))) << column;
    for (const char* silent : {"", "not stated", "unknown", "-", "N/A"}) {
      EXPECT_EQ(With(Gpt175B(), column, silent).assumptions, plain.assumptions) << column << silent;
    }
  }
  for (const char* stage : {"7", "-4", "1.5", "32", "abc"}) {
    const RowPlan odd = With(Gpt175B(), "zero_stage", stage);
    EXPECT_EQ(odd.job.zero_stage, plain.job.zero_stage) << stage;
    EXPECT_THAT(odd.assumptions, Contains(HasSubstr("zero_stage"))) << stage;
  }
  EXPECT_EQ(With(Gpt175B(), "zero_stage", "not stated").assumptions, plain.assumptions);
}

TEST(RowWords, overlapped_reductions_may_leave_gathers_exposed) {
  const graph::TrainingStyle reductions = With(Gpt175B(), "dp_overlap", "grad").style;
  EXPECT_TRUE(reductions.overlap_grad_reduce);
  EXPECT_FALSE(reductions.overlap_param_gather);
  EXPECT_TRUE(With(Gpt175B(), "dp_overlap", "grad+param").style.overlap_param_gather);
}

TEST(RowWords, context_parallelism_that_a_row_states_is_kept) {
  const char* const header =
      "id,framework,model,layers,hidden,heads,vocab,seq_len,tp,pp,cp,num_gpus,global_batch,gpu\n";
  const std::string rest = ",Llama 7B,32,4096,32,32000,131072,";
  const auto csv =
      CsvTable::Parse(std::string(header) + "a,NeMo" + rest + "4,1,16,64,1,H100\n" + "b,NeMo" +
                          rest + ",,1,64,1,H100\n" + "c,NeMo" + rest + ",,16,64,1,H100\n",
                      "t.csv");
  ASSERT_TRUE(csv.ok());
  const RowPlan without = PlanRow({*csv, 1});
  EXPECT_EQ(without.job.parallel.cp, 1);
  EXPECT_GE(without.assumption_spread, 0.3);
  const RowPlan same = PlanRow({*csv, 2});
  EXPECT_EQ(same.job.parallel.cp, 16);
  EXPECT_EQ(same.job.parallel.tp, 4);
}

TEST(RowWords, ranks_beyond_one_a_sequence_are_context_parallel) {
  Fields fields = Gpt175B();
  Set(&fields, "cp", "1");
  Set(&fields, "dp", "1");
  Set(&fields, "global_batch", "1");
  const RowPlan plan = PlanOf(fields);  // two replicas of a batch of one
  EXPECT_EQ(plan.job.parallel.cp, 2);
  EXPECT_EQ(plan.job.global_batch_size, 1);
}

TEST(RowWords, gpus_that_no_replica_has_are_told) {
  const RowPlan plan = With(Gpt175B(), "num_gpus", "160");
  EXPECT_EQ(plan.job.parallel.dp, 2);
  EXPECT_THAT(plan.assumptions, Contains(HasSubstr("idle")));
  EXPECT_GE(plan.assumption_spread, 0.2);
}

TEST(RowWords, what_the_column_extra_says_of_a_fine_tuning_is_typed) {
  Fields fields = Gpt175B();
  Set(&fields, "framework", "NeMo AutoModel (PyTorch FSDP2)");
  Set(&fields, "run_kind", "LoRA");
  Set(&fields, "gpu", "RTX A6000 48GB");
  Set(&fields, "extra",
      "attention=flash_attention_3;packing=none;lm_head=fused_chunked;tied=no;lora_rank=8;"
      "lora targets q,k,v,o,gate,up,down;max_concurrent_runs=4");
  const RowPlan plan = PlanOf(fields);
  EXPECT_TRUE(plan.unknown_cells.empty());
  EXPECT_EQ(plan.style.framework, "torchtitan");
  EXPECT_EQ(plan.style.attention, graph::AttentionKind::kCudnn);
  EXPECT_EQ(plan.style.packed_length, 0);
  EXPECT_TRUE(plan.style.chunked_head && plan.style.adapters_of_all);
  EXPECT_EQ(plan.style.adapter_rank, 8);
  EXPECT_EQ(plan.style.adapter_sets, 4);
  EXPECT_FALSE(plan.job.model.tied_embeddings);
  EXPECT_EQ(plan.cluster.gpu, "gpus/rtx-a6000");
  Set(&fields, "extra", "packing=none;lora targets q,v;attention=ring of rings");
  const RowPlan narrow = PlanOf(fields);
  EXPECT_FALSE(narrow.style.adapters_of_all);
  EXPECT_THAT(narrow.unknown_cells, ::testing::ElementsAre("extra: attention=ring of rings"));
  Set(&fields, "extra", "");
  EXPECT_GT(PlanOf(fields).style.packed_length, 0);
}

TEST(RowWords, an_unknown_gpu_has_a_wide_interval) {
  EXPECT_GE(With(Gpt175B(), "gpu", "TPU v4").assumption_spread, 1);
  EXPECT_EQ(With(Gpt175B(), "gpu", "H100 80GB PCIe").cluster.gpu, "gpus/h100-pcie");
}

TEST(RowWords, llama_3_was_trained_in_chunks_of_one_layer) {
  Fields fields = Gpt175B();
  Set(&fields, "framework", "Meta internal (FSDP+TP+PP+CP)");
  Set(&fields, "layers", "126");
  Set(&fields, "pp", "16");
  Set(&fields, "dp", "1");
  EXPECT_EQ(PlanOf(fields).job.parallel.vpp, 8);
}

}  // namespace
}  // namespace prism::launch
