// Rows of measured collectives, their errors and the sweep.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"

#include "experiments/published/benches.h"
#include "experiments/published/collective_row.h"

namespace prism::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHeader =
    "id,source_ref,collective,gpu,num_gpus,nodes,gpus_per_node,interconnect,algo,size_bytes,"
    "time_us,time_inplace_us,algbw_gb_s,busbw_gb_s\n";

CollectiveRow ReadOne(const std::string& fields) {
  const Result<CsvTable> table = CsvTable::Parse(kHeader + fields + "\n", "t.csv");
  EXPECT_TRUE(table.ok()) << table.status().message();
  const Result<std::vector<CollectiveRow>> rows = ReadCollectiveRows(*table);
  EXPECT_TRUE(rows.ok()) << rows.status().message();
  return rows->front();
}

std::vector<std::string> WordsOf(const std::string& line) {
  std::istringstream text(line);
  return {std::istream_iterator<std::string>(text), {}};
}

TEST(CollectiveRow, time_counts_before_bandwidth) {
  const CollectiveRow timed = ReadOne("a,x,all_reduce,H100,8,1,8,NVLink,,1000000,20,,,1");
  EXPECT_DOUBLE_EQ(timed.measured_s, 20e-6);
  // 1 MB at a bus bandwidth of 1.75 GB/s: 1 GB/s of the call's bytes.
  const CollectiveRow rated = ReadOne("a,x,all_reduce,H100,8,1,8,NVLink,,1000000,,,,1.75");
  EXPECT_NEAR(rated.measured_s, 1e-3, 1e-12);
  EXPECT_NE(ReadOne("a,x,all_reduce,H100,8,1,8,NVLink,,8,,,,0").reason_skipped, "");
  EXPECT_THAT(ReadOne("a,x,all_dance,H100,8,1,8,NVLink,,8,1,,,0").reason_skipped,
              HasSubstr("all_dance"));
}

TEST(CollectiveRow, platform_follows_gpu_and_interconnect) {
  const CollectiveRow stated =
      ReadOne("a,x,all_reduce,A100 SXM,32,4,8,4 x 200 Gb/s RDMA,Ring forced,,,,,48");
  EXPECT_EQ(stated.platform.gpu, "gpus/a100-80");
  EXPECT_DOUBLE_EQ(stated.platform.nics_per_node, 4);
  EXPECT_DOUBLE_EQ(stated.platform.nic_bytes_per_s, 25e9);
  EXPECT_EQ(stated.algorithm, replayer::NcclAlgorithm::kRing);
  EXPECT_TRUE(stated.saturated);
  EXPECT_EQ(stated.topology, (replayer::CommTopology{32, 4, 8, 1}));
}

TEST(CollectiveRow, the_release_it_states_chooses) {
  const auto release = [](const std::string& said) {
    const Result<CsvTable> table = CsvTable::Parse(
        "collective,num_gpus,gpu,size_bytes,busbw_gb_s,nccl_version\nall_reduce,8,A100,8,1," +
            said + "\n",
        "t.csv");
    const CollectiveRow row = ReadCollectiveRows(*table)->front();
    return ClusterOf(row.platform, {})->parameters.Value("nccl.release");
  };
  EXPECT_EQ(release("2.20.5"), 220);
  EXPECT_EQ(release("NCCL v2.8.4-1"), 208);
  EXPECT_EQ(release(""), release("unknown"));
}

TEST(CollectiveRow, names_are_known_by_their_letters) {
  for (const char* name : {"AllReduce", "all-reduce", "all_reduce_perf", "allreduce"}) {
    const CollectiveRow row = ReadOne(std::string("a,x,") + name + ",H100,8,1,8,NVLink,,8,1,,,");
    EXPECT_EQ(row.collective, "all_reduce") << name;
    EXPECT_EQ(row.reason_skipped, "") << name;
  }
  EXPECT_EQ(ReadOne("a,x,all_reduce,a100,8,1,8,NVLink,,8,1,,,").platform.gpu, "gpus/a100-80");
  EXPECT_EQ(ReadOne("a,x,all_reduce,a100,8,1,8,NVLink,,8,1,,,").platform.network,
            "networks/dgx-a100");
  EXPECT_EQ(ReadOne("a,x,all_reduce,A100-PCIE-40GB,8,1,8,,,8,1,,,").platform.gpu, "gpus/a100-pcie");
  EXPECT_EQ(ReadOne("a,x,all_reduce,gb200 nvl72,64,16,4,,,8,1,,,").topology,
            (replayer::CommTopology{64, 1, 64, 1}));
  EXPECT_THAT(ReadOne("a,x,all_reduce,H20,8,1,8,NVLink,,8,1,,,").reason_skipped, HasSubstr("H20"));
}

TEST(CollectiveRow, an_algorithm_that_is_denied_is_not_forced) {
  const auto algorithm = [](const std::string& said, const char* nodes) {
    return ReadOne(std::string("a,x,all_reduce,H100,32,") + nodes + ",8,NVLink," + said + ",8,1,,,")
        .algorithm;
  };
  EXPECT_EQ(algorithm("NVLS disabled", "1"), replayer::NcclAlgorithm::kRing);
  EXPECT_EQ(algorithm("no NVLS", "1"), replayer::NcclAlgorithm::kRing);
  EXPECT_EQ(algorithm("ring", "4"), replayer::NcclAlgorithm::kRing);
  EXPECT_EQ(algorithm("SHARP disabled", "4"), std::nullopt);
  EXPECT_EQ(algorithm("SHARP", "4"), replayer::NcclAlgorithm::kCollNet);
}

TEST(CollectiveRow, rates_are_read_in_any_spelling) {
  const auto nics = [](const std::string& interconnect) {
    return ReadOne("a,x,all_reduce,H100,16,2,8," + interconnect + ",,8,1,,,")
        .platform.nics_per_node;
  };
  EXPECT_EQ(nics("8 x 400 Gb/s"), 8);
  EXPECT_EQ(nics("8x400 Gb/s"), 8);
  EXPECT_EQ(nics("8 \xC3\x97 400 Gb/s"), 8);
  EXPECT_EQ(nics("400 Gb/s single NIC"), 1);
  EXPECT_EQ(nics("8 x 400Gbps"), 8);
  EXPECT_EQ(nics("NDR 400 Gb/s InfiniBand"), 0);  // as many as the profile has
}

TEST(CollectiveRow, trays_of_a_rack_are_one_node) {
  const CollectiveRow row = ReadOne("a,x,all_reduce,GB200 NVL72,64,16,4,,,1073741824,1,,,");
  EXPECT_EQ(row.topology, (replayer::CommTopology{64, 1, 64, 1}));
  EXPECT_EQ(row.platform.network, "networks/nvl72");
}

TEST(BenchCollectives, sweep_prints_what_nccl_tests_prints) {
  CollectiveSweepOptions options;
  const Result<PublishedOutput> sweep = SweepCollective(options);
  ASSERT_TRUE(sweep.ok()) << sweep.status().message();
  EXPECT_EQ(sweep->cases.size(), 31U);  // 8 B to 8 GiB
  EXPECT_EQ(sweep->cases.back().name, "all_reduce of 8589934592 B on 8 ranks of h100-8x");
  std::istringstream lines(sweep->text);
  std::string line;
  std::getline(lines, line);  // what and where
  std::getline(lines, line);
  EXPECT_THAT(WordsOf(line), ElementsAre("#", "size", "count", "type", "redop", "root", "time",
                                         "algbw", "busbw", "#wrong", "algo", "proto"));
  while (std::getline(lines, line) && WordsOf(line).front() != "8589934592") {
  }
  const std::vector<std::string> words = WordsOf(line);
  ASSERT_EQ(words.size(), 11U) << line;
  EXPECT_THAT((std::vector<std::string>(words.begin(), words.begin() + 5)),
              ElementsAre("8589934592", "2147483648", "float", "sum", "-1"));
  EXPECT_EQ(words[8], "N/A");
  options.collective = "all_dance";
  EXPECT_FALSE(SweepCollective(options).ok());
}

TEST(BenchCollectives, rows_have_a_field_for_each_column) {
  const ScratchFolder folder;
  const std::string path = folder / "collectives.csv";
  std::ofstream(path) << kHeader << "a,x,all_reduce,H100 SXM,8,1,8,NVLink,,1000000,20,,,1\n"
                      << "b,x,all_dance,H100 SXM,8,1,8,NVLink,,1000000,20,,,1\n";
  BenchCollectivesOptions options;
  options.table = path;
  options.leave_out = false;
  const Result<PublishedOutput> output = BenchCollectives(options);
  ASSERT_TRUE(output.ok()) << output.status().message();
  const Result<CsvTable> rows = CsvTable::Parse(output->rows, "rows");
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  ASSERT_EQ(rows->row_count(), 2U);
  EXPECT_EQ(rows->Field(0, "root"), "-1");
  EXPECT_EQ(rows->Field(0, "wrong"), "N/A");
  EXPECT_EQ(rows->Field(0, "measured_us"), "20.00");
  EXPECT_NE(rows->Field(0, "proto"), "");
  EXPECT_THAT(rows->Field(1, "reason_skipped"), HasSubstr("all_dance"));
}

TEST(BenchCollectives, published_curves_are_met) {
  const std::string table = std::string(PRISM_SOURCE_DIR) + "/../shared/groundtruth/nccl_busbw.csv";
  if (!std::filesystem::exists(table)) {
    GTEST_SKIP() << "the published tables are not beside the sources";
  }
  BenchCollectivesOptions options;
  options.table = table;
  options.leave_out = false;
  const Result<PublishedOutput> output = BenchCollectives(options);
  ASSERT_TRUE(output.ok()) << output.status().message();
  const std::vector<BenchMetric>& all = output->cases.back().metrics;
  EXPECT_EQ(all[1].name, "mape");
  EXPECT_LE(all[1].value, 5);
  EXPECT_EQ(all[2].name, "median");
  EXPECT_LE(all[2].value, 2.5);
}

}  // namespace
}  // namespace prism::launch
