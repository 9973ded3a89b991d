// The error tables of experiments/accuracy are what the command prints now. After a change of costs
// or parameters experiments/pages/make_pages.py rewrites them.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "launch/inputs/csv_table.h"

#include "experiments/published/benches.h"

namespace prism::launch {
namespace {

// 0 for an empty field.
double Number(const CsvTable& table, size_t row, const char* column) {
  const std::string& field = table.Field(row, column);
  return field.empty() ? 0 : std::stod(field);
}

class ErrorTable : public ::testing::TestWithParam<const char*> {};

TEST_P(ErrorTable, is_what_the_command_writes) {
  const std::string name = GetParam();
  const std::string root = PRISM_SOURCE_DIR;
  const std::string table = root + "/../shared/groundtruth/" + name + ".csv";
  if (!std::filesystem::exists(table)) {
    GTEST_SKIP() << "../shared/groundtruth is not there";
  }
  BenchAccuracyOptions options;
  options.tables = {table};
  const Result<PublishedOutput> output = BenchAccuracy(options);
  ASSERT_TRUE(output.ok()) << output.status().message();
  const Result<std::string> committed =
      ReadFile(root + "/experiments/accuracy/" + name + "/errors.csv");
  ASSERT_TRUE(committed.ok()) << committed.status().message();
  const Result<CsvTable> now = CsvTable::Parse(output->rows, "now");
  const Result<CsvTable> then = CsvTable::Parse(*committed, "then");
  ASSERT_TRUE(now.ok() && then.ok());
  ASSERT_EQ(now->row_count(), then->row_count());
  for (size_t row = 0; row < now->row_count(); ++row) {
    const std::string& id = now->Field(row, "id");
    for (const char* column : {"id", "measured_s", "reason_skipped"}) {
      EXPECT_EQ(now->Field(row, column), then->Field(row, column)) << id << " " << column;
    }
    for (const char* column : {"predicted_s", "low_s", "high_s"}) {
      const double value = Number(*then, row, column);
      EXPECT_NEAR(Number(*now, row, column), value, 1e-4 * value) << id << " " << column;
    }
  }
}

// All but the two largest, which take longer than all others together.
INSTANTIATE_TEST_SUITE_P(Tables,
                         ErrorTable,
                         ::testing::Values("bloom_a100_topology",
                                           "dgxc_benchmarking",
                                           "korthikanti_table5",
                                           "llama3_table4",
                                           "megascale_table2",
                                           "megatron_2020_readme",
                                           "megatron_bridge_perf",
                                           "megatron_core_h100_scaling",
                                           "megatron_sc21_table1",
                                           "megatron_sc21_table2",
                                           "mlperf_training",
                                           "moe_modelzoo",
                                           "mpt_llmfoundry",
                                           "mtnlg_530b",
                                           "nemo_2407_perf",
                                           "nemo_long_context",
                                           "neusight_distributed",
                                           "torchtitan",
                                           "vtrain_multi"));

}  // namespace
}  // namespace prism::launch
