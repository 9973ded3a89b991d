// Logs of NCCL: lines of several releases, as jobs print them, mixed with others.
#include "launch/analyse/nccl/nccl_log.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

// Two ranks of a group of three: one never ends its initialisation.
constexpr const char* kLog = R"(step 1 loss 2.3
a:10:10 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
a:10:12 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 3 commId 0xabc - Init START
a:11:13 [1] NCCL INFO ncclCommInitRank comm 0x5 rank 1 nranks 3 commId 0xabc - Init START
b:10:12 [0] NCCL INFO ncclCommInitRank comm 0x7 rank 2 nranks 3 commId 0xabc - Init START
a:10:12 [0] NCCL INFO comm 0x5 rank 0 nRanks 3 nNodes 2 localRanks 2 localRank 0 MNNVL 0
a:10:12 [0] NCCL INFO Channel 00/02 :    0   1   2
a:10:12 [0] NCCL INFO Channel 01/02 :    0   2   1
a:10:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
a:11:13 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/2/GDRDMA
a:11:13 [1] NCCL INFO Channel 01/0 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA
a:10:12 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels
a:10:12 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 3 commId 0xabc - Init COMPLETE
0: b:10:12 [0] NCCL INFO ncclCommInitRank comm 0x7 rank 2 nranks 3 commId 0xabc - Init COMPLETE
a:10:10 [0] NCCL INFO AllReduce: opCount 0 count 1024 datatype 9 comm 0x5 [nranks=3] stream 1
b:10:10 [0] NCCL INFO AllReduce: opCount 0 count 1024 datatype 9 comm 0x7 [nranks=3] stream 1
a:10:10 [0] NCCL INFO AllReduce: 2048 Bytes -> Algo 1 proto 0 time 12.5
a:10:10 [0] NCCL INFO AllReduce: 8388608 Bytes -> Algo Ring proto SIMPLE channel{Lo..Hi}={0..1}
b:10:10 [0] misc.cc:47 NCCL WARN Cuda failure 'out of memory'
)";

// As a terminal, or Windows, or a launcher that colours its ranks has them.
TEST(NcclLogs, colours_and_carriage_returns_are_no_part_of_lines) {
  std::string dressed;
  for (const char c : std::string(kLog)) {
    dressed += c == '\n' ? "\x1b[0m\r\n" : std::string(1, c);
  }
  for (size_t at = dressed.find("NCCL"); at != std::string::npos; at = dressed.find("NCCL", at)) {
    dressed.insert(at, "\x1b[1;32m");
    at += 12;
  }
  const ScratchFolder folder;
  folder.Write("plain.log", kLog);
  folder.Write("dressed.log", dressed);
  ASSERT_TRUE(IsNcclLog(folder / "dressed.log"));
  const Result<TableReport> plain = ReportOfNcclLogs({folder / "plain.log"});
  const Result<TableReport> report = ReportOfNcclLogs({folder / "dressed.log"});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->notes, plain->notes);
  for (size_t i = 0; i < report->tables.size(); ++i) {
    EXPECT_EQ(report->tables[i].rows, plain->tables[i].rows) << report->tables[i].key;
  }
}

TEST(NcclLogs, groups_channels_and_choices) {
  const ScratchFolder folder;
  folder.Write("nccl.log", kLog);
  ASSERT_TRUE(IsNcclLog(folder / "nccl.log"));
  const Result<TableReport> report = ReportOfNcclLogs({folder / "nccl.log"});
  ASSERT_TRUE(report.ok()) << report.status().message();
  const auto rows = [&](const std::string& key) {
    for (const ReportTable& table : report->tables) {
      if (table.key == key) {
        return table.rows;
      }
    }
    return std::vector<std::vector<ReportCell>>();
  };
  using Cells = std::vector<ReportCell>;
  using Int = int64_t;
  ASSERT_EQ(rows("groups").size(), 1U);
  EXPECT_EQ(rows("groups").front(),
            (Cells{"0xabc", Int{3}, "0, 2", "1", Int{2}, Int{2}, Int{2}, "   0   1   2"}));
  ASSERT_EQ(rows("algorithms").size(), 2U);
  EXPECT_EQ(rows("algorithms")[0], (Cells{"AllReduce", Int{2048}, "RING", "LL", "", 12.5, Int{1}}));
  EXPECT_EQ(rows("algorithms")[1],
            (Cells{"AllReduce", Int{8388608}, "RING", "SIMPLE", "0..1", std::monostate(), Int{1}}));
  EXPECT_EQ(rows("calls").front(), (Cells{"AllReduce", Int{2048}, Int{3}, Int{2}}));
  EXPECT_EQ(rows("connections"),
            (std::vector<Cells>{{"NET/IB/GDRDMA", Int{2}}, {"P2P/CUMEM", Int{1}}}));
  EXPECT_EQ(rows("warnings").front(), (Cells{"Cuda failure 'out of memory'", Int{1}}));
  EXPECT_EQ(report->notes.front(), "NCCL 2.21.5+cuda12.4");
}

// Of a line only the beginning is looked at, or read at a time.
TEST(NcclLogs, lines_of_any_length_are_passed_over) {
  const ScratchFolder folder;
  for (const size_t length :
       {size_t{0}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{1} << 20}) {
    folder.Write("nccl.log", std::string(length, 'x') + " NCCL WARN too far\n" +
                                 std::string(length, 'x') + "\na:1:1 [0] NCCL WARN last");
    const Result<TableReport> report = ReportOfNcclLogs({folder / "nccl.log"});
    ASSERT_TRUE(report.ok()) << length << ": " << report.status().message();
    const ReportTable& warnings = report->tables.back();
    ASSERT_EQ(warnings.key, "warnings");
    ASSERT_EQ(warnings.rows.size(), length < 4000 ? 2U : 1U) << length;
    EXPECT_EQ(warnings.rows.front().front(), ReportCell("last")) << length;
  }
}

TEST(NcclLogs, other_files_are_none) {
  const ScratchFolder folder;
  folder.Write("other.log", "step 1\n");
  EXPECT_FALSE(IsNcclLog(folder / "other.log"));
  EXPECT_FALSE(IsNcclLog(folder.path()));
  EXPECT_EQ(ReportOfNcclLogs({folder / "other.log"}).status().code(), StatusCode::kBadFile);
}

}  // namespace
}  // namespace prism::launch
