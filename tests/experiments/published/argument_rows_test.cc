// Rows that state Megatron-LM's arguments: the shapes, states and workspaces that follow; and
// tables that lack columns.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "tests/experiments/published/one_row.h"
#include "tests/support/scratch_folder.h"

#include "experiments/published/row_plan.h"

namespace prism::launch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// A row of Megatron-LM's own tests.
Fields Tested(const std::string& arguments) {
  Fields fields = Gpt175B();
  Set(&fields, "framework", "Megatron-LM / Megatron-Core CI");
  Set(&fields, "precision", "bf16");
  Set(&fields, "recompute", "none");
  Set(&fields, "mem_rank", "last rank");
  Set(&fields, "peak_mem_gib", "60");
  Set(&fields, "extra", "tokenizer=;transformer_impl=transformer_engine;" + arguments);
  return fields;
}

graph::ModelSpec ModelOf(const Fields& fields) {
  return PlanRow(OneRow(fields).row()).job.model;
}

double BytesOf(const Fields& fields) {
  return PlanRow(OneRow(fields).row()).predicted_bytes.value_or(0);
}

TEST(ArgumentRows, the_block_is_the_kind_nearest_to_the_arguments) {
  Fields fields = Tested("disable-bias-linear");
  Set(&fields, "arch", "gpt MoE");  // no word for what the arguments say
  Set(&fields, "experts", "8");
  EXPECT_EQ(ModelOf(fields).block, graph::BlockKind::kNemotron);
  EXPECT_EQ(ModelOf(fields).moe.expert_ffn, 4 * 12288);
  EXPECT_EQ(ModelOf(Tested("")).block, graph::BlockKind::kGpt);
  const graph::ModelSpec gated = ModelOf(Tested("swiglu"));
  EXPECT_EQ(gated.block, graph::BlockKind::kLlama);
  EXPECT_EQ(gated.ffn, 32768);  // 8/3 of 12288, a multiple of 64
  Fields narrow = Tested("swiglu");
  Set(&narrow, "hidden", "1600");  // 4266.7
  EXPECT_EQ(ModelOf(narrow).ffn, 4224);
}

TEST(ArgumentRows, arguments_give_widths_groups_and_padding) {
  const graph::ModelSpec model =
      ModelOf(Tested("kv-channels=64;group-query-attention;num-query-groups=12;"
                     "make-vocab-size-divisible-by=3232"));
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.kv_heads, 12);
  EXPECT_EQ(model.vocab, 51712);  // of 51200, a multiple of 8 times 3232
  EXPECT_EQ(ModelOf(Tested("")).kv_heads, 96);
}

// What a column leaves open, and the program's default if neither column nor arguments say.
TEST(ArgumentRows, arguments_stand_in_for_columns) {
  Fields fields = Tested(
      "num-experts=8;moe-ffn-hidden-size=1024;ffn-hidden-size=4096;swiglu;"
      "vocab-size=8000;moe-router-topk=4;sequence-parallel;"
      "use-distributed-optimizer;tp-comm-overlap");
  Set(&fields, "vocab", "");
  const RowPlan said = PlanRow(OneRow(fields).row());
  EXPECT_EQ(said.job.model.ffn, 4096);
  EXPECT_EQ(said.job.model.vocab, 8000);
  EXPECT_EQ(said.job.model.moe.experts, 8);
  EXPECT_EQ(said.job.model.moe.expert_ffn, 1024);
  EXPECT_EQ(said.job.model.moe.topk, 4);
  EXPECT_TRUE(said.job.sequence_parallel);
  EXPECT_TRUE(said.style.tp_comm_overlap);
  EXPECT_EQ(said.job.zero_stage, 1);
  Set(&fields, "moe_topk", "1");
  EXPECT_EQ(ModelOf(fields).moe.topk, 1);
  const RowPlan silent = PlanRow(OneRow(Tested("num-experts=8")).row());
  EXPECT_EQ(silent.job.model.moe.topk, 2);
  EXPECT_FALSE(silent.job.sequence_parallel);
  EXPECT_FALSE(silent.style.tp_comm_overlap);
  EXPECT_EQ(silent.job.zero_stage, 0);
}

TEST(ArgumentRows, strategies_of_sharding_are_stages) {
  Fields fields = Tested("use-megatron-fsdp;use-distributed-optimizer");
  const auto stage = [&](const char* strategy) {
    Set(&fields, "zero_stage", strategy);
    return PlanRow(OneRow(fields).row()).job.zero_stage;
  };
  EXPECT_EQ(stage("no_shard"), 0);
  EXPECT_EQ(stage("optim"), 1);
  EXPECT_EQ(stage("optim_grads"), 2);
  EXPECT_EQ(stage("optim_grads_params"), 3);
  EXPECT_EQ(stage("optimizer and gradients sharded, parameters kept"), 2);
  EXPECT_EQ(PlanRow(OneRow(fields).row()).style.data_parallel, graph::DataParallelKind::kZero2);
}

// 4 MiB before Hopper, 32 MiB from Hopper on; PyTorch's own two are those of deterministic mode.
TEST(ArgumentRows, transformer_engine_has_workspaces_of_its_own) {
  constexpr double kMiB = 1 << 20;
  const auto bytes = [](const char* gpu, const std::string& arguments) {
    Fields fields = Tested("attention-backend=unfused;deterministic-mode;" + arguments);
    Set(&fields, "gpu", gpu);
    return BytesOf(fields);
  };
  const auto own = [](const char* gpu) {
    Fields fields = Tested("");
    Set(&fields, "extra",
        "tokenizer=;transformer_impl=local;attention-backend=unfused;deterministic-mode");
    Set(&fields, "gpu", gpu);
    return BytesOf(fields);
  };
  EXPECT_EQ(own("H100"), own("A100"));
  EXPECT_NEAR(bytes("A100", "") - own("A100"), 4 * kMiB, kMiB);  // what a split leaves over
  EXPECT_NEAR(bytes("H100", "") - own("H100"), 32 * kMiB, kMiB);
  Fields mixture = Tested("deterministic-mode");
  Set(&mixture, "experts", "8");
  const double by_expert = BytesOf(mixture);
  Set(&mixture, "extra",
      "tokenizer=;transformer_impl=transformer_engine;deterministic-mode;moe-grouped-gemm");
  EXPECT_NEAR(BytesOf(mixture) - by_expert, 4 * 4 * kMiB, 2 * kMiB);  // a stream each
}

// Eager activations of experts are kept for the gradient of the probabilities.
TEST(ArgumentRows, unfused_activations_of_experts_are_kept) {
  Fields fields = Tested("disable-bias-linear");
  Set(&fields, "experts", "8");
  Set(&fields, "moe_topk", "2");
  Set(&fields, "sp", "yes");
  const double fused = BytesOf(fields);
  Set(&fields, "extra",
      "tokenizer=;transformer_impl=transformer_engine;disable-bias-linear;no-bias-gelu-fusion");
  const double layers = 12;
  const double rows = 2048.0 / 8 * 2 * 8;  // tokens of a rank, two experts each, those of the group
  const double each = rows * 4 * 12288 * 2 / 8;
  EXPECT_NEAR(BytesOf(fields) - fused, layers * each, 0.02 * layers * each);
}

// Latent attention has such norms anyway, for what is compressed.
TEST(ArgumentRows, norms_of_queries_and_keys_keep_what_goes_into_them) {
  const auto bytes = [](const std::string& arguments) { return BytesOf(Tested(arguments)); };
  const double layers = 12;
  const double each = 2 * 2048.0 * 12288 * 2 / 8;  // queries and keys of a rank
  EXPECT_NEAR(bytes("qk-layernorm") - bytes(""), layers * each, 0.02 * layers * each);
  EXPECT_EQ(bytes("qk-layernorm;multi-latent-attention"), bytes("multi-latent-attention"));
}

TEST(ArgumentRows, arguments_without_effect_are_noted) {
  const auto assumptions = [](const std::string& arguments) {
    return PlanRow(OneRow(Tested(arguments)).row()).assumptions;
  };
  EXPECT_THAT(assumptions("optimizer=muon"),
              Contains("argument: optimizer=muon, without effect here"));
  for (const char* none :
       {"optimizer=adam", "qk-layernorm", "main-grads-dtype=fp32", "recompute-num-layers=1"}) {
    EXPECT_THAT(assumptions(none), Not(Contains(HasSubstr("argument: ")))) << none;
  }
}

// 40 GB of master copies and moments, divided over dp 8, 4, 2 and 1.
TEST(ArgumentRows, instances_of_the_optimizer_divide_states_over_their_replicas) {
  const auto bytes = [](const char* instances) {
    Fields fields = Tested(std::string("num-distributed-optimizer-instances=") + instances);
    Set(&fields, "dist_optimizer", "yes");
    Set(&fields, "dp", "8");
    Set(&fields, "num_gpus", "512");
    return BytesOf(fields);
  };
  const double whole = bytes("8") - bytes("1");
  EXPECT_GT(whole, 20e9);
  EXPECT_NEAR((bytes("2") - bytes("1")) / whole, 1.0 / 7, 0.01);
  EXPECT_NEAR((bytes("4") - bytes("1")) / whole, 3.0 / 7, 0.01);
  EXPECT_EQ(bytes("16"), bytes("8"));
}

TEST(ArgumentRows, ends_and_groups_that_do_not_fit_are_noted) {
  Fields fields = Tested("decoder-first-pipeline-num-layers=10");
  EXPECT_THAT(PlanRow(OneRow(fields).row()).assumptions, Not(Contains(HasSubstr("stages:"))));
  Set(&fields, "vpp", "2");
  EXPECT_THAT(PlanRow(OneRow(fields).row()).assumptions, Contains(HasSubstr("dealt out evenly")));
  Fields groups = Tested("microbatch-group-size-per-virtual-pipeline-stage=5");
  Set(&groups, "vpp", "12");
  EXPECT_THAT(PlanRow(OneRow(groups).row()).assumptions, Not(Contains(HasSubstr("groups of"))));
  Set(&groups, "vpp", "13");  // 104 chunks of 96 layers
  EXPECT_THAT(PlanRow(OneRow(groups).row()).assumptions,
              Contains("groups of micro-batches: left out, more chunks than layers"));
}

TEST(ArgumentRows, a_format_that_the_gpu_lacks_is_noted) {
  Fields fields = Gpt175B();
  Set(&fields, "framework", "NeMo / Megatron-Core");
  Set(&fields, "precision", "FP8");
  EXPECT_THAT(PlanRow(OneRow(fields).row()).assumptions, Contains(HasSubstr("no 8-bit products")));
  Set(&fields, "gpu", "H100");
  EXPECT_THAT(PlanRow(OneRow(fields).row()).assumptions,
              Not(Contains(HasSubstr("no 8-bit products"))));
  Set(&fields, "precision", "MXFP8");
  EXPECT_THAT(PlanRow(OneRow(fields).row()).assumptions, Contains(HasSubstr("no MX formats")));
}

TEST(ArgumentRows, a_gpu_that_is_not_named_is_one_of_the_softwares_time) {
  Fields fields = Gpt175B();
  Set(&fields, "gpu", "");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).cluster.gpu, "gpus/a100-80");
  Set(&fields, "framework", "NeMo / Megatron-Core");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).cluster.gpu, "gpus/h100-80");
  Set(&fields, "gpu_mem_gb", "40");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).cluster.gpu, "gpus/a100-40");
}

// Without the column, the table's name is the prefix of the ids.
TEST(ArgumentRows, the_source_is_told_by_ids_as_well) {
  Fields fields = Gpt175B();
  Set(&fields, "source_key", "");
  Set(&fields, "id", "mlperf_training-0001");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).source, "mlperf_training");
  EXPECT_TRUE(OneRow(fields).row().Is("mlperf"));
  Set(&fields, "source_key", "Others");
  EXPECT_FALSE(OneRow(fields).row().Is("mlperf"));
}

TEST(ArgumentRows, only_a_table_that_describes_no_job_is_refused) {
  const ScratchFolder folder;
  const std::string path = folder / "lacking.csv";
  const auto read = [&](const std::string& header, const std::string& row) {
    EXPECT_TRUE(WriteFileAtomically(path, header + "\n" + row + "\n").ok());
    return PlanTables({path});
  };
  const Result<std::vector<RowPlan>> plans =
      read("id,model,layers,hidden,global_batch,num_gpus", "x-1,GPT,4,1024,8,8");
  ASSERT_TRUE(plans.ok()) << plans.status().message();
  EXPECT_EQ(plans->front().cannot_predict, "");
  EXPECT_THAT(plans->front().assumptions,
              Contains(HasSubstr("columns that the table lacks, taken as empty: source_key,")));
  EXPECT_THAT(read("model,hidden,global_batch,num_gpus", "GPT,1024,8,8").status().message(),
              HasSubstr("has no column 'id'"));
  EXPECT_THAT(read("id,collective,num_gpus", "x-1,all_reduce,8").status().message(),
              HasSubstr("has no column 'model'"));
  EXPECT_THAT(read("id,model,num_gpus", "x-1,GPT,8").status().message(),
              HasSubstr("has no column 'global_batch'"));
  EXPECT_THAT(read("id,model,global_batch", "x-1,GPT,8").status().message(),
              HasSubstr("has no column 'num_gpus'"));
}

}  // namespace
}  // namespace prism::launch
