// The effect of torchtitan's defaults on published rows that leave something out.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/csv_table.h"

#include "experiments/published/published_row.h"
#include "experiments/published/row_plan.h"

namespace prism::launch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kColumns =
    "id,source_ref,framework,framework_version,model,arch,layers,hidden,heads,kv_heads,ffn,vocab,"
    "seq_len,tp,pp,cp,dp,num_gpus,zero_stage,global_batch,micro_batch,recompute,gpu,extra\n";

std::string Row(const std::string& version, const std::string& pp, const std::string& extra) {
  return "x,x,torchtitan," + version +
         ",Llama 3 8B,llama dense GQA,32,4096,32,8,14336,128256,8192,8," + pp +
         ",1,8,,FSDP2 full shard,256,,full,H100," + extra + "\n";
}

RowPlan PlanOf(const std::string& row) {
  const Result<CsvTable> csv = CsvTable::Parse(kColumns + row, "t.csv");
  EXPECT_TRUE(csv.ok()) << csv.status().message();
  return PlanRow({*csv, 0});
}

TEST(TorchtitanRows, pipeline_stages_keep_what_they_gathered_for_all_micro_batches) {
  EXPECT_FALSE(PlanOf(Row("2024-12", "8", "")).style.reshard_after_forward);
  const RowPlan flat = PlanOf(Row("2024-12", "1", ""));
  EXPECT_TRUE(flat.style.reshard_after_forward);
  EXPECT_EQ(flat.style.data_parallel, graph::DataParallelKind::kFsdp);
}

TEST(TorchtitanRows, until_2025_a_pipeline_had_as_many_micro_batches_as_stages) {
  EXPECT_EQ(PlanOf(Row("9dec370 (2024-12-26)", "8", "")).job.microbatches(), 8);
  EXPECT_EQ(PlanOf(Row("1234567 (2025-06)", "8", "")).job.micro_batch_size, 1);
}

TEST(TorchtitanRows, release_is_dated_by_version_or_source_and_not_by_a_hash) {
  const auto old = [](const std::string& version, const std::string& source) {
    std::string row = Row(version, "1", "");
    row.replace(row.find(",x,"), 3, "," + source + ",");
    return PlanOf(row).style.fsdp_root_has_ends;
  };
  EXPECT_TRUE(old("820504e (2025-06)", "x"));
  EXPECT_TRUE(old("0.1.0.dev20250612", "x"));
  EXPECT_TRUE(old("395a52627", "docs/performance.md of 2024-04"));
  EXPECT_FALSE(old("2025-12", "docs/performance.md of 2024-04"));
  EXPECT_FALSE(old("torch 2.20", "x"));
}

TEST(TorchtitanRows, from_2025_on_the_loss_is_compiled_with_the_layers) {
  const auto fused = [](const std::string& version, const std::string& compile) {
    const Result<CsvTable> csv = CsvTable::Parse(
        "framework,framework_version,model,arch,layers,hidden,heads,kv_heads,ffn,vocab,seq_len,tp,"
        "dp,num_gpus,zero_stage,global_batch,micro_batch,recompute,gpu,compile\ntorchtitan," +
            version +
            ",Llama 3 8B,llama,32,4096,32,8,14336,128256,8192,1,8,8,FSDP2,8,1,full,H100," +
            compile + "\n",
        "t.csv");
    EXPECT_TRUE(csv.ok()) << csv.status().message();
    return PlanRow({*csv, 0}).style.fused_cross_entropy;
  };
  EXPECT_FALSE(fused("9dec370 (2024-12-26)", "yes"));
  EXPECT_TRUE(fused("820504e (2025-06)", "yes"));
  EXPECT_FALSE(fused("820504e (2025-06)", "no"));
}

// Bytes of Llama 3 8B on 8 H100s, run with torchtitan 0.2.2 and torch 2.11 under the virtual
// device, whose allocator is torch's own; with expandable segments, as torchtitan's launcher sets
// them.
struct Recording {
  const char* recompute;
  const char* plan;  // tp, pp, dp, then sequences of a micro-batch and of all ranks
  const char* rank;
  double allocated;
  double reserved;
};

// Predicted over recorded.
double Ratio(const Recording& run, const std::string& counter) {
  const Result<CsvTable> csv = CsvTable::Parse(
      std::string("id,framework,framework_version,model,arch,layers,hidden,heads,kv_heads,ffn,"
                  "vocab,seq_len,num_gpus,zero_stage,tp,pp,dp,micro_batch,global_batch,"
                  "recompute,mem_rank,gpu,mem_kind,peak_mem_gib\n"
                  "x,torchtitan,0.2.2 (2026-02),Llama 3 8B,llama dense GQA,32,4096,32,8,14336,"
                  "128256,8192,8,FSDP2 full shard,") +
          run.plan + "," + run.recompute + "," + run.rank + ",H100," + counter + ",40\n",
      "t.csv");
  EXPECT_TRUE(csv.ok()) << csv.status().message();
  return PlanRow({*csv, 0}).predicted_bytes.value_or(0) /
         (counter == "reserved" ? run.reserved : run.allocated);
}

TEST(TorchtitanRows, peak_memory_is_that_of_a_recorded_rank) {
  for (const Recording& run :
       {Recording{"selective (per-op)", "1,1,8,1,8", "rank 0", 42'586'572'800, 50'870'616'064},
        Recording{"full", "1,1,8,2,16", "rank 0", 42'947'414'016, 53'521'416'192},
        Recording{"selective (per-op)", "2,1,4,1,4", "rank 0", 32'708'592'640, 39'363'543'040}}) {
    EXPECT_NEAR(Ratio(run, "allocated"), 1, 0.002) << run.plan;
    EXPECT_NEAR(Ratio(run, "reserved"), 1, 0.015) << run.plan;
  }
}

// 1F1B of two stages and eight micro-batches; the last one holds the logits of the current one.
TEST(TorchtitanRows, peak_memory_of_a_pipeline_is_that_of_its_recorded_ends) {
  const Recording first = {"full", "1,2,4,1,32", "rank 0", 40'924'097'024, 47'903'145'984};
  const Recording last = {"full", "1,2,4,1,32", "last rank", 52'662'913'536, 63'107'497'984};
  EXPECT_NEAR(Ratio(first, "allocated"), 1, 0.01);
  EXPECT_NEAR(Ratio(last, "allocated"), 1, 0.002);
  EXPECT_NEAR(Ratio(first, "reserved"), 1, 0.02);
  EXPECT_NEAR(Ratio(last, "reserved"), 1, 0.03);
}

TEST(TorchtitanRows, context_parallelism_is_that_of_torch) {
  EXPECT_TRUE(PlanOf(Row("2024", "1", "")).style.cp_torch_ring);
}

TEST(TorchtitanRows, a_length_is_that_of_the_page_and_recomputation_that_of_the_presets) {
  constexpr const char* kModel = "torchtitan,2026,Llama 3 8B,llama,32,4096,32,8,14336,128256,";
  const std::string plan = ",1,1,1,4,4,FSDP2,128,32,,B200,\n";
  const std::string other_page = std::string("y,o/r docs/old.md table,") + kModel + "8192" + plan;
  const std::string same_page =
      "z,o/r docs/new.md table 2,torchtitan,2026,Qwen3 8B,qwen,36,4096,32,8,12288,151936,2048" +
      plan;
  const std::string row = std::string("x,o/r docs/new.md table 1,") + kModel + plan;
  const RowPlan shared = PlanOf(row + other_page + same_page);
  EXPECT_EQ(shared.job.seq_len, 2048);
  EXPECT_THAT(shared.assumptions, Contains(HasSubstr("runs on the page")));
  EXPECT_EQ(shared.job.recompute, graph::Recompute::kSelective);
  EXPECT_EQ(shared.style.recompute_parts, graph::kRecomputeEverySecondMatmul);
  EXPECT_EQ(PlanOf(row + other_page).job.seq_len, 8192);
}

}  // namespace
}  // namespace prism::launch
