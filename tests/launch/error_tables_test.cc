// The error tables of experiments/accuracy are what the command says today. After a change of costs
// or parameters experiments/pages/make_pages.py writes them anew.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "graph/base/file.h"
#include "launch/accuracy/csv_table.h"
#include "launch/verbs/bench_accuracy.h"

namespace prism::launch {
namespace {

class ErrorTable : public ::testing::TestWithParam<const char*> {};

TEST_P(ErrorTable, Is_what_the_command_writes) {
  const std::string name = GetParam();
  const std::string root = PRISM_SOURCE_DIR;
  const std::string table = root + "/../shared/groundtruth/" + name + ".csv";
  if (!std::filesystem::exists(table)) {
    GTEST_SKIP() << "../shared/groundtruth is not there";
  }
  const Result<BenchAccuracyOutput> output = BenchAccuracy({{table}, "", ""});
  ASSERT_TRUE(output.ok()) << output.status().message();
  const Result<std::string> committed =
      ReadFile(root + "/experiments/accuracy/" + name + "/errors.csv");
  ASSERT_TRUE(committed.ok()) << committed.status().message();
  const Result<CsvTable> now = CsvTable::Parse(output->rows, "now");
  const Result<CsvTable> then = CsvTable::Parse(*committed, "then");
  ASSERT_TRUE(now.ok() && then.ok());
  ASSERT_EQ(now->row_count(), then->row_count());
  for (size_t row = 0; row < now->row_count(); ++row) {
    for (const std::string& column : now->columns()) {
      EXPECT_EQ(now->Field(row, column), then->Field(row, column))
          << now->Field(row, "id") << " " << column;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tables,
    ErrorTable,
    ::testing::Values("korthikanti_table5", "megatron_sc21_table1", "torchtitan", "vtrain_multi"));

}  // namespace
}  // namespace prism::launch
