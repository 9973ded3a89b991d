// Effects left out in turn: prism bench accuracy --without, --ablation.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "launch/inputs/csv_table.h"
#include "tests/support/scratch_folder.h"

#include "experiments/published/benches.h"
#include "experiments/published/effects.h"

namespace prism::launch {
namespace {

using ::testing::HasSubstr;

// Two invented runs of one model: one node with full recomputation, and 16 of them.
std::string SmallTable() {
  static const ScratchFolder folder;
  const std::string path = folder / "table.csv";
  const std::string text =
      "id,source_key,source_ref,framework,framework_version,run_kind,model,arch,params_b,"
      "layers,hidden,heads,kv_heads,ffn,vocab,seq_len,experts,moe_topk,moe_ffn,tp,pp,vpp,"
      "cp,ep,etp,dp,sp,zero_stage,dist_optimizer,micro_batch,global_batch,grad_accum,"
      "recompute,precision,tp_comm_overlap,dp_overlap,compile,gpu,gpu_mem_gb,gpus_per_node,"
      "num_gpus,interconnect,iter_time_s,iter_time_derived_s,tokens_per_s,"
      "tokens_per_s_per_gpu,samples_per_s,tflops_per_gpu,tflops_kind,mfu_pct,hfu_pct,"
      "peak_mem_gib,mem_kind,mem_rank,extra,verified,note\n"
      "x-1,x,,Megatron-LM,,,,,,48,6144,64,,,51200,2048,,,,8,1,,,,,1,,,,1,4,,full,fp16,,,,"
      "A100-80GB,,8,8,,1.4,,,,,,,,,,,,,,\n"
      "x-2,x,,Megatron-LM,,,,,,48,6144,64,,,51200,2048,,,,4,2,,,,,16,,,,1,64,,none,fp16,,,,"
      "A100-80GB,,8,128,,1.2,,,,,,,,,,,,,,\n";
  EXPECT_TRUE(WriteFileAtomically(path, text).ok());
  return path;
}

double FirstSeconds(const std::string& table, const std::string& effect) {
  BenchAccuracyOptions options;
  options.tables = {table};
  if (!effect.empty()) {
    options.without = {effect};
  }
  const Result<PublishedOutput> output = BenchAccuracy(options);
  EXPECT_TRUE(output.ok()) << output.status().message();
  return std::stod(CsvTable::Parse(output->rows, "rows")->Field(0, "predicted_s"));
}

TEST(Ablation, what_is_taken_away_no_longer_takes_time) {
  const std::string table = SmallTable();
  const double whole = FirstSeconds(table, "");
  for (const char* effect : {"wave-quantisation", "short-inner-loops", "memory-bound-kernels",
                             "nvlink", "recompute", "dropout"}) {
    EXPECT_LT(FirstSeconds(table, effect), whole) << effect;
  }
  // One node: no network.
  EXPECT_EQ(FirstSeconds(table, "hierarchical-rings"), whole);
  EXPECT_EQ(FirstSeconds(table, "data-parallelism"), whole);
  // A forward pass is a quarter of the work.
  EXPECT_NEAR(FirstSeconds(table, "recompute") / whole, 0.75, 0.04);
}

TEST(Ablation, every_effect_has_a_line) {
  BenchAccuracyOptions options;
  options.tables = {SmallTable()};
  const Result<PublishedOutput> output = BenchAblation(options);
  ASSERT_TRUE(output.ok()) << output.status().message();
  ASSERT_EQ(output->cases.size(), Effects().size());
  for (const Effect& effect : Effects()) {
    EXPECT_THAT(output->text, HasSubstr(fmt::format("\n{} ", effect.name)));
  }
}

TEST(Ablation, an_unknown_effect_is_refused_with_a_near_name) {
  std::vector<RowPlan> plans;
  ProfileOverrides overrides;
  EXPECT_THAT(TakeAway("recompte", &plans, &overrides).message(),
              HasSubstr("did you mean recompute?"));
}

TEST(Ablation, page_is_what_the_command_says) {
  const std::string root = PRISM_SOURCE_DIR;
  const std::string table = root + "/../shared/groundtruth/korthikanti_table5.csv";
  if (!std::filesystem::exists(table)) {
    GTEST_SKIP() << "../shared/groundtruth is not there";
  }
  BenchAccuracyOptions options;
  options.tables = {table};
  options.without = {"wave-quantisation", "nvlink"};
  const Result<PublishedOutput> output = BenchAblation(options);
  ASSERT_TRUE(output.ok()) << output.status().message();
  const Result<std::string> committed =
      ReadFile(root + "/experiments/ablation/korthikanti_table5.csv");
  ASSERT_TRUE(committed.ok()) << committed.status().message();
  const std::string lines = output->rows.substr(output->rows.find('\n') + 1);
  for (const char* effect : {"wave-quantisation", "nvlink"}) {
    const size_t begin = lines.find(effect);
    const std::string of_effect = lines.substr(begin, lines.find('\n', begin) - begin);
    EXPECT_THAT(*committed, HasSubstr(of_effect));
  }
}

}  // namespace
}  // namespace prism::launch
