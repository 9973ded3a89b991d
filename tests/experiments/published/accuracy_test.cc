// Reading of published rows and the statistics over their errors.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/csv_field.h"
#include "launch/inputs/csv_table.h"
#include "tests/experiments/published/one_row.h"

#include "experiments/published/error_statistics.h"
#include "experiments/published/published_row.h"
#include "experiments/published/row_plan.h"
#include "experiments/published/source_summary.h"

namespace prism::launch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(CsvTable, quotes_commas_and_line_breaks_are_part_of_a_field) {
  const Result<CsvTable> table = CsvTable::Parse("a,b\n\"x, \"\"y\"\"\nz\",2\r\n\n3,\n", "t.csv");
  ASSERT_TRUE(table.ok()) << table.status().message();
  ASSERT_EQ(table->row_count(), 2U);
  EXPECT_EQ(table->Field(0, "a"), "x, \"y\"\nz");
  EXPECT_EQ(table->Field(0, "b"), "2");
  EXPECT_EQ(table->Field(1, "b"), "");
  EXPECT_EQ(table->LineOf(1), 5);
  EXPECT_EQ(CsvField("x, \"y\""), "\"x, \"\"y\"\"\"");
}

TEST(CsvTable, damage_is_refused_with_its_line) {
  const auto message = [](std::string_view text) {
    return CsvTable::Parse(text, "t.csv").status().message();
  };
  EXPECT_THAT(message("a,b\n1,2\n1\n"), HasSubstr("t.csv:3: 1 fields"));
  EXPECT_THAT(message("a,b\n\"1,2\n"), HasSubstr("t.csv:2: the quote"));
  EXPECT_THAT(message("a,a\n1,2\n"), HasSubstr("two columns"));
  EXPECT_THAT(message("a,b\n"), HasSubstr("no row"));
  EXPECT_THAT(message(std::string_view("a,b\n\0,2\n", 8)), HasSubstr("not a text file"));
}

// The number of micro-batches determines how many GPUs a replica has; the nearest run of the same
// model and GPU determines how they are divided.
TEST(RowPlan, a_plan_that_is_not_printed_is_that_of_the_nearest_run) {
  const Result<CsvTable> csv = CsvTable::Parse(
      "id,source_key,framework,model,layers,hidden,heads,vocab,seq_len,tp,pp,cp,num_gpus,"
      "micro_batch,global_batch,grad_accum,gpu\n"
      "x-1,x,NeMo,A LoRA,80,8192,64,32000,8192,,,,32,,8,2,H100\n"
      "x-2,x,NeMo,A LoRA,80,8192,64,32000,8192,1,1,8,512,1,64,1,H100\n"
      "x-3,x,NeMo,A LoRA,80,8192,64,32000,8192,4,1,2,16,1,8,4,H100\n"
      "x-4,x,NeMo,A LoRA,80,8192,64,32000,8192,2,1,4,32,1,8,2,H200\n",
      "t.csv");
  ASSERT_TRUE(csv.ok()) << csv.status().message();
  const RowPlan plan = PlanRow({*csv, 0});
  EXPECT_EQ(plan.cannot_predict, "");
  EXPECT_EQ(plan.job.parallel.tp, 4);
  EXPECT_EQ(plan.job.parallel.cp, 2);
  EXPECT_EQ(plan.job.parallel.dp, 4);
  EXPECT_EQ(plan.job.microbatches(), 2);
  EXPECT_THAT(plan.assumptions, Contains(HasSubstr("nearest run that prints one")));
}

TEST(RowPlan, a_blank_row_takes_plan_and_batch_of_the_nearest_run) {
  const Result<CsvTable> csv = CsvTable::Parse(
      "id,source_key,framework,model,layers,hidden,heads,vocab,seq_len,tp,pp,cp,num_gpus,"
      "micro_batch,global_batch,gpu\n"
      "x-1,x,NeMo,A,80,8192,64,32000,8192,,,,32,1,,H100\n"
      "x-2,x,NeMo,A,80,8192,64,32000,8192,2,1,4,64,1,16,H100\n",
      "t.csv");
  ASSERT_TRUE(csv.ok()) << csv.status().message();
  const graph::JobSpec job = PlanRow({*csv, 0}).job;
  EXPECT_EQ(job.parallel.tp, 2);
  EXPECT_EQ(job.parallel.cp, 4);
  EXPECT_EQ(job.parallel.dp, 4);
  EXPECT_EQ(job.global_batch_size, 16);
}

TEST(RowPlan, a_whole_row_needs_few_assumptions) {
  const OneRow table(Gpt175B());
  const RowPlan plan = PlanRow(table.row());
  EXPECT_EQ(plan.cannot_predict, "");
  EXPECT_EQ(plan.job.parallel.dp, 2);
  EXPECT_EQ(plan.job.microbatches(), 32);
  EXPECT_EQ(plan.job.model.ffn, 4 * 12288);
  EXPECT_EQ(plan.job.recompute, graph::Recompute::kFull);
  EXPECT_EQ(plan.job.compute_dtype, DataType::kFloat16);
  EXPECT_EQ(plan.style.attention, graph::AttentionKind::kUnfused);
  EXPECT_EQ(plan.cluster.gpu, "gpus/a100-80");
  EXPECT_EQ(plan.measured_s, 10);
  EXPECT_THAT(plan.assumptions, Contains("feed-forward: 4 times hidden"));
}

TEST(RowPlan, blanks_are_derived_or_assumed_and_noted) {
  auto fields = Gpt175B();
  for (const char* column : {"dp", "micro_batch", "heads", "recompute", "precision"}) {
    Set(&fields, column, "");
  }
  Set(&fields, "framework", "Some unheard-of trainer");
  Set(&fields, "gpu", "Unheard-of GPU");
  const OneRow table(fields);
  const RowPlan plan = PlanRow(table.row());
  EXPECT_EQ(plan.cannot_predict, "");
  EXPECT_EQ(plan.job.parallel.dp, 2);
  EXPECT_EQ(plan.job.micro_batch_size, 1);
  EXPECT_EQ(plan.job.model.heads, 96);
  EXPECT_THAT(plan.assumptions, Contains("GPU: not known, taken for an H100"));
  EXPECT_THAT(plan.assumptions, Contains("framework: not known, taken for Megatron-Core"));
  EXPECT_THAT(plan.assumptions, Contains("micro-batch: usual"));
}

TEST(RowPlan, fine_tuning_packs_short_sequences_but_for_mlperf) {
  auto fields = Gpt175B();
  EXPECT_EQ(PlanRow(OneRow(fields).row()).style.packed_length, 0);
  Set(&fields, "run_kind", "SFT");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).style.packed_length, 256);
  Set(&fields, "source_key", "mlperf_training");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).style.packed_length, 0);
}

TEST(RowPlan, megatron_that_recomputes_whole_layers_has_no_sequence_parallelism) {
  auto fields = Gpt175B();
  EXPECT_FALSE(PlanRow(OneRow(fields).row()).job.sequence_parallel);
  Set(&fields, "recompute", "selective");
  EXPECT_TRUE(PlanRow(OneRow(fields).row()).job.sequence_parallel);
  Set(&fields, "sp", "no");
  EXPECT_FALSE(PlanRow(OneRow(fields).row()).job.sequence_parallel);
}

TEST(RowPlan, deep_speeds_optimizer_of_bf16_sums_in_fp32_where_a_note_says_so) {
  auto fields = Gpt175B();
  Set(&fields, "framework", "Megatron-DeepSpeed");
  Set(&fields, "precision", "bf16");
  EXPECT_FALSE(PlanRow(OneRow(fields).row()).style.separate_fp32_gradients);
  Set(&fields, "note", "bf16 optimizer with unsharded fp32 gradient accumulation");
  const RowPlan plan = PlanRow(OneRow(fields).row());
  EXPECT_TRUE(plan.style.separate_fp32_gradients);
  EXPECT_EQ(plan.style.gradient_type, DataType::kFloat32);
}

TEST(RowPlan, releases_of_megatron_core_up_to_24_07_run_flash_attention) {
  const std::string nemo = "NeMo / Megatron-Core";
  const std::string own = "Megatron-Core";  // which counts its releases by itself
  const auto attention = [](const std::string& framework, const std::string& version) {
    auto fields = Gpt175B();
    fields[2].second = framework;
    fields.emplace_back("framework_version", version);
    return PlanRow(OneRow(fields).row()).style.attention;
  };
  for (const char* version : {"24.07 container", "NeMo 24.03.01"}) {
    EXPECT_EQ(attention(nemo, version), graph::AttentionKind::kFlash) << version;
  }
  for (const char* version : {"", "v24.11.1", "NeMo 25.04.rc2", "0.2.0"}) {
    EXPECT_EQ(attention(nemo, version), graph::AttentionKind::kCudnn) << version;
  }
  EXPECT_EQ(attention(own, "0.8.0"), graph::AttentionKind::kFlash);
  for (const char* version : {"0.9.0", "0.12.1"}) {
    EXPECT_EQ(attention(own, version), graph::AttentionKind::kCudnn) << version;
  }
}

// What it does not state is as in the runs of SC21 and Korthikanti et al.
TEST(RowPlan, megatron_lms_own_runs_take_a_step_at_once_and_interleave_little) {
  auto fields = Gpt175B();
  Set(&fields, "framework", "Megatron-Core");
  Set(&fields, "micro_batch", "");
  Set(&fields, "pp", "6");
  Set(&fields, "num_gpus", "96");
  Set(&fields, "global_batch", "48");
  const RowPlan deep = PlanRow(OneRow(fields).row());
  EXPECT_EQ(deep.job.parallel.vpp, 2);  // of 16 layers a stage
  EXPECT_EQ(deep.job.microbatches(), 24);
  EXPECT_THAT(deep.assumptions, Contains(HasSubstr("as Megatron-LM's own runs have it")));

  Set(&fields, "pp", "1");
  Set(&fields, "num_gpus", "16");
  Set(&fields, "global_batch", "16");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.microbatches(), 1);
}

// Stages share layers evenly, so a rounded number of parameters (here 73.5 layers) determines it.
TEST(RowPlan, layers_from_parameters_are_a_multiple_of_the_stages) {
  auto fields = Gpt175B();
  Set(&fields, "layers", "");
  Set(&fields, "hidden", "14400");
  Set(&fields, "params_b", "183");
  Set(&fields, "pp", "12");
  Set(&fields, "num_gpus", "192");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.model.layers, 72);
  Set(&fields, "pp", "1");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.model.layers, 74);
  // Too far from 32, the next multiple: not rounding, but uneven stages.
  Set(&fields, "pp", "16");
  Set(&fields, "params_b", "68");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.model.layers, 27);
}

// Eight layers of a wide model with fewer heads say nothing about the whole model.
TEST(RowPlan, heads_come_from_runs_of_about_as_many_parameters) {
  const auto heads = [](const char* billions) {
    const Result<CsvTable> csv = CsvTable::Parse(
        fmt::format("id,source_key,framework,model,params_b,layers,hidden,heads,vocab,seq_len,tp,"
                    "pp,num_gpus,micro_batch,global_batch,gpu\n"
                    "x-1,x,Megatron-LM,A,{},8,12288,32,51200,2048,8,1,8,1,8,A100\n"
                    "x-2,x,Megatron-LM,B,175,96,12288,,51200,2048,8,8,64,1,64,A100\n",
                    billions),
        "t.csv");
    EXPECT_TRUE(csv.ok()) << csv.status().message();
    return csv.ok() ? PlanRow({*csv, 1}).job.model.heads : 0;
  };
  EXPECT_EQ(heads("15"), 96);
  EXPECT_EQ(heads("160"), 32);
}

TEST(RowPlan, without_a_shape_the_reason_is_named) {
  auto fields = Gpt175B();
  Set(&fields, "hidden", "");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).cannot_predict, "model shape is missing: hidden size");
}

TEST(RowPlan, experts_and_latent_attention_come_from_the_architecture) {
  auto fields = Gpt175B();
  Set(&fields, "arch", "MoE with MLA attention, first 3 layers dense, 1 shared expert");
  Set(&fields, "experts", "256");
  Set(&fields, "moe_topk", "8");
  Set(&fields, "moe_ffn", "2048");
  Set(&fields, "ffn", "18432");
  Set(&fields, "ep", "2");
  const RowPlan plan = PlanRow(OneRow(fields).row());
  EXPECT_EQ(plan.job.model.moe.dense_layers, 3);
  EXPECT_EQ(plan.job.model.moe.shared_expert_ffn, 2048);
  EXPECT_EQ(plan.job.model.latent.kv_rank, 512);
  EXPECT_EQ(plan.job.parallel.ep, 2);
}

TEST(RowPlan, a_note_says_what_the_recipe_turned_on) {
  auto fields = Gpt175B();
  Set(&fields, "framework", "Megatron-Bridge / Megatron-Core");
  Set(&fields, "gpu", "GB200");
  Set(&fields, "experts", "128");
  Set(&fields, "ep", "16");
  Set(&fields, "num_gpus", "256");
  Set(&fields, "dp", "4");
  Set(&fields, "note",
      "x; it sets cuda_graph_impl=transformer_engine; cuda_graph_scope=['attn', 'moe_router']; "
      "moe_flex_dispatcher_backend=hybridep; moe_a2a_overlap=True");
  RowPlan plan = PlanRow(OneRow(fields).row());
  EXPECT_EQ(plan.style.graph_parts, graph::kGraphAttention | graph::kGraphRouter);
  EXPECT_EQ(plan.style.host_cost, graph::HostCost::kEager);
  EXPECT_TRUE(plan.style.moe_fused_dispatch);
  EXPECT_TRUE(plan.style.moe_overlap);
  EXPECT_EQ(plan.cluster.gpus_per_node, 64);  // four racks of 72, equal parts
  EXPECT_EQ(plan.style.moe_node_ranks, 16);
  Set(&fields, "note", "it sets cuda_graph_impl=full_iteration");
  plan = PlanRow(OneRow(fields).row());
  EXPECT_EQ(plan.style.host_cost, graph::HostCost::kGraph);
  EXPECT_FALSE(plan.style.moe_fused_dispatch);
}

// Releases of Megatron-Bridge have a recipe for each model and GPU; most rows quote theirs.
TEST(RowPlan, without_a_note_the_recipe_is_what_those_of_its_release_have_in_common) {
  const auto style = [](const std::string& gpu, const std::string& version) {
    auto fields = Gpt175B();
    Set(&fields, "framework", "Megatron-Bridge / Megatron-Core");
    Set(&fields, "framework_version", version);
    Set(&fields, "gpu", gpu);
    Set(&fields, "experts", "16");
    Set(&fields, "ep", "2");
    return PlanRow(OneRow(fields).row()).style;
  };
  EXPECT_EQ(style("GB300", "26.08 container").host_cost, graph::HostCost::kGraph);
  EXPECT_EQ(style("GB200", "26.04 container").graph_parts,
            graph::kGraphAttention | graph::kGraphRouter);
  EXPECT_EQ(style("B200", "26.04 container").graph_parts, 0U);
  EXPECT_EQ(style("B200", "26.06 container").graph_parts,
            graph::kGraphAttention | graph::kGraphRouter);
  EXPECT_EQ(style("H100", "26.08 container").host_cost, graph::HostCost::kEager);
}

TEST(RowPlan, a_degree_that_is_not_printed_is_what_the_others_leave) {
  auto fields = Gpt175B();
  Set(&fields, "pp", "");
  RowPlan plan = PlanRow(OneRow(fields).row());
  EXPECT_EQ(plan.job.parallel.pp, 8);
  EXPECT_THAT(plan.assumptions, Contains(HasSubstr("what the others leave")));
  Set(&fields, "pp", "4");
  Set(&fields, "dp", "");
  Set(&fields, "global_batch", "2");
  plan = PlanRow(OneRow(fields).row());
  EXPECT_EQ(plan.job.parallel.cp, 2);
  EXPECT_EQ(plan.job.parallel.dp, 2);
}

TEST(RowPlan, a_count_of_0_says_as_little_as_an_empty_field) {
  for (const char* column : {"seq_len", "vocab", "heads", "pp", "cp", "vpp", "dp", "num_gpus",
                             "micro_batch", "global_batch", "grad_accum", "experts"}) {
    auto fields = Gpt175B();
    Set(&fields, column, "");
    const RowPlan empty = PlanRow(OneRow(fields).row());
    Set(&fields, column, "0");
    const RowPlan zero = PlanRow(OneRow(fields).row());
    EXPECT_EQ(zero.cannot_predict, empty.cannot_predict) << column;
    EXPECT_TRUE(zero.job.parallel == empty.job.parallel) << column;
    EXPECT_EQ(zero.job.micro_batch_size, empty.job.micro_batch_size) << column;
    EXPECT_EQ(zero.assumptions, empty.assumptions) << column;
  }
}

// Run 1 prints tp but no ep, like the run in question; run 2 prints ep.
TEST(RowPlan, experts_are_divided_as_in_the_nearest_run_that_says_how) {
  const Result<CsvTable> csv = CsvTable::Parse(
      "id,source_key,framework,model,layers,hidden,heads,vocab,seq_len,experts,moe_topk,moe_ffn,"
      "tp,etp,ep,pp,dp,num_gpus,micro_batch,global_batch,gpu\n"
      "x-0,x,NeMo,M,32,4096,32,32000,4096,32,2,4096,,,,4,8,64,1,64,H100\n"
      "x-1,x,NeMo,M,32,4096,32,32000,4096,32,2,4096,2,,,4,8,64,1,64,H100\n"
      "x-2,x,NeMo,M,32,4096,32,32000,4096,32,2,4096,2,,4,4,16,128,1,64,H100\n",
      "t.csv");
  ASSERT_TRUE(csv.ok()) << csv.status().message();
  for (const size_t row : {0, 1}) {
    const RowPlan plan = PlanRow({*csv, row});
    EXPECT_EQ(plan.cannot_predict, "");
    EXPECT_EQ(plan.job.parallel.tp, 2);
    EXPECT_EQ(plan.job.parallel.etp, 2);
    EXPECT_EQ(plan.job.parallel.ep, 4);
  }
}

TEST(RowPlan, nanotron_has_no_interleaving) {
  auto fields = Gpt175B();
  Set(&fields, "vpp", "4");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.parallel.vpp, 4);
  Set(&fields, "framework", "nanotron");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.parallel.vpp, 1);
}

TEST(RowPlan, shapes_that_are_not_stated_are_those_of_the_family) {
  auto fields = Gpt175B();
  Set(&fields, "heads", "");
  Set(&fields, "hidden", "14400");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.model.heads, 96);  // 144 heads are 100 wide
  Set(&fields, "hidden", "6144");
  Set(&fields, "model", "Nemotron-4 15B");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.model.kv_heads, 8);
  Set(&fields, "seq_len", "");
  EXPECT_EQ(PlanRow(OneRow(fields).row()).job.seq_len, 2048);
}

TEST(RowPlan, a_prediction_of_another_tool_is_not_taken_for_a_measurement) {
  auto fields = Gpt175B();
  Set(&fields, "run_kind", "PREDICTION of another simulator, not a measurement");
  EXPECT_FALSE(PlanRow(OneRow(fields).row()).measured_s.has_value());
}

TEST(ErrorStatistics, of_hand_counted_points) {
  const std::vector<PredictedPoint> points = {
      {11, 9, 12, 10, "a"}, {20, 19, 19.5, 20, "a"}, {24, 20, 30, 30, "a"}};
  const ErrorStatistics errors = SummariseErrors(points);
  EXPECT_NEAR(errors.mape_pct, (10 + 0 + 20) / 3.0, 1e-9);
  EXPECT_NEAR(errors.median_pct, 10, 1e-9);
  EXPECT_NEAR(errors.p90_pct, 18, 1e-9);
  EXPECT_NEAR(errors.worst_pct, 20, 1e-9);
  EXPECT_NEAR(errors.bias_pct, -10 / 3.0, 1e-9);
  EXPECT_NEAR(errors.r2.value(), 1 - 37.0 / 200.0, 1e-9);
  const IntervalStatistics intervals = SummariseIntervals(points);
  EXPECT_NEAR(intervals.inside_pct, 200 / 3.0, 1e-9);
}

TEST(ErrorStatistics, regret_is_what_the_chosen_plan_costs) {
  const std::vector<PredictedPoint> points = {
      {1, 1, 1, 12, "a"}, {2, 2, 2, 10, "a"}, {3, 3, 3, 20, "a"}, {1, 1, 1, 5, "b"}};
  const RankingStatistics ranking = SummariseRanking(points);
  EXPECT_EQ(ranking.groups, 1);
  EXPECT_NEAR(ranking.worst_regret_pct, 20, 1e-9);
  EXPECT_NEAR(ranking.rank_correlation.value(), 0.5, 1e-9);
}

TEST(ErrorStatistics, nothing_stands_for_what_is_not_defined) {
  const std::vector<PredictedPoint> equal = {
      {1, 1, 1, 5, "a"}, {2, 2, 2, 5, "a"}, {3, 3, 3, 5, "a"}};
  EXPECT_FALSE(SummariseErrors(equal).r2.has_value());
  EXPECT_FALSE(SummariseRanking(equal).rank_correlation.has_value());
  EXPECT_EQ(SummariseRanking(equal).groups, 1);
  // Such a group does not count among others.
  std::vector<PredictedPoint> both = equal;
  for (const double value : {1.0, 2.0, 3.0}) {
    both.push_back({value, value, value, value, "b"});
  }
  EXPECT_NEAR(SummariseRanking(both).rank_correlation.value(), 1, 1e-9);
}

// Twice the time of a run that took 10 s, half that of one that took 40 s.
TEST(Baseline, has_no_bias_on_what_it_is_fitted_to) {
  RowPlan first = PlanRow(OneRow(Gpt175B()).row());
  RowPlan second = first;
  second.measured_s = 40;
  const auto summary = Summarise({{&first, {}, ""}, {&second, {}, ""}});
  ASSERT_TRUE(summary.ok()) << summary.status().message();
  EXPECT_NEAR(summary->front().baseline_errors.worst_pct, 100, 1e-9);
  EXPECT_NEAR(summary->front().baseline_errors.mape_pct, 75, 1e-9);
}

}  // namespace
}  // namespace prism::launch
