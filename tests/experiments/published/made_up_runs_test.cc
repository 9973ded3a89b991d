// What prism bench accuracy predicts for runs that nobody has measured (made_up_runs.csv, beside
// this file): a run of every framework, and pairs of runs for which it is clear which is longer.
// Published tables are not needed.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "launch/inputs/csv_table.h"
#include "launch/inputs/presets.h"
#include "launch/plan/peak_flops.h"

#include "experiments/published/benches.h"
#include "experiments/published/row_plan.h"

namespace prism::launch {
namespace {

const char* const kTable = PRISM_SOURCE_DIR "/tests/experiments/published/made_up_runs.csv";

struct Prediction {
  double seconds = 0;
  double low_s = 0;
  double high_s = 0;
};

std::map<std::string, Prediction> Predictions() {
  BenchAccuracyOptions options;
  options.tables = {kTable};
  const Result<PublishedOutput> output = BenchAccuracy(options);
  EXPECT_TRUE(output.ok()) << output.status().message();
  const Result<CsvTable> rows = CsvTable::Parse(output->rows, "rows");
  EXPECT_TRUE(rows.ok()) << rows.status().message();
  std::map<std::string, Prediction> predictions;
  for (size_t row = 0; row < rows->row_count(); ++row) {
    EXPECT_EQ(rows->Field(row, "reason_skipped"), "") << rows->Field(row, "id");
    predictions[rows->Field(row, "id")] = {std::stod(rows->Field(row, "predicted_s")),
                                           std::stod(rows->Field(row, "low_s")),
                                           std::stod(rows->Field(row, "high_s"))};
  }
  return predictions;
}

// No run can be faster than the GPU's matrix units; all of these frameworks reach a tenth of that
// rate with 1.3 billion parameters on 16 GPUs.
TEST(MadeUpRuns, of_every_framework_take_a_time_that_its_gpus_could) {
  const std::map<std::string, Prediction> predictions = Predictions();
  const Result<std::vector<RowPlan>> plans = PlanTables({kTable});
  ASSERT_TRUE(plans.ok()) << plans.status().message();
  std::map<std::string, int> of_framework;
  for (const RowPlan& plan : *plans) {
    const Result<graph::ClusterSpec> cluster = ComposeCluster(plan.cluster.profiles, {});
    ASSERT_TRUE(cluster.ok()) << cluster.status().message();
    const double peak = PeakFlops(*cluster, plan.style.precision) *
                        static_cast<double>(plan.job.parallel.world_size());
    const double least = graph::ModelFlops(plan.job) / peak;
    const Prediction& prediction = predictions.at(plan.id);
    EXPECT_GT(prediction.seconds, least) << plan.id;
    EXPECT_LT(prediction.seconds, 10 * least) << plan.id;
    EXPECT_LT(prediction.low_s, prediction.seconds) << plan.id;
    EXPECT_GT(prediction.high_s, prediction.seconds) << plan.id;
    ++of_framework[plan.style.framework];
  }
  EXPECT_EQ(of_framework.size(), 9U);
}

TEST(MadeUpRuns, that_differ_in_one_thing_take_longer_or_shorter_for_it) {
  const std::map<std::string, Prediction> predictions = Predictions();
  const auto ratio = [&](const char* run, const char* other) {
    return predictions.at(run).seconds / predictions.at(other).seconds;
  };
  // One more forward pass is a third more work; twice the batch is nearly twice as much, as the
  // pipeline's bubble and the optimizer stay the same.
  EXPECT_NEAR(ratio("megatron_lm_recomputed", "megatron_lm"), 4.0 / 3, 0.1);
  EXPECT_GT(ratio("megatron_lm_twice_the_batch", "megatron_lm"), 1.7);
  EXPECT_LT(ratio("megatron_lm_twice_the_batch", "megatron_lm"), 2);
  // 8-bit products run faster than 16-bit ones, and an H100 faster than an A100, but at most by the
  // ratio of their peaks: twice and 3.2 times.
  EXPECT_LT(ratio("megatron_core_fp8", "megatron_core"), 1);
  EXPECT_GT(ratio("megatron_core_fp8", "megatron_core"), 0.5);
  EXPECT_GT(ratio("megatron_core_a100", "megatron_core"), 1.3);
  EXPECT_LT(ratio("megatron_core_a100", "megatron_core"), 3.2);
  EXPECT_LT(ratio("torchtitan_compiled", "torchtitan"), 1);
}

}  // namespace
}  // namespace prism::launch
