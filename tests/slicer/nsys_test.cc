// Exports of Nsight Systems: what the tables say becomes a profile of each process.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "replayer/replay.h"
#include "slicer/import/nsys/nsys_file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/test_parameters.h"

namespace prism::slicer {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTables = R"(
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT,
  streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT,
  correlationId INT, globalPid INT, bytes INT, copyKind INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, eventClass INT, globalTid INT,
  correlationId INT, nameId INT);
CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT);
CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, totalMemory INT);
INSERT INTO StringIds VALUES (1, 'void gemm<float>(int)'), (2, 'gemm'),
  (3, 'cudaLaunchKernel_v7000'), (4, 'cudaMemcpyAsync_v3020'), (5, 'cudaDeviceSynchronize_v3020'),
  (6, 'iteration 2');
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 85520809984);
)";

// A database in the scratch folder.
class NsysExport {
 public:
  explicit NsysExport(const std::string& name = "a.sqlite") : path_(folder_ / name) {
    EXPECT_EQ(sqlite3_open(path_.c_str(), &database_), SQLITE_OK);
    Run(kTables);
  }
  NsysExport(const NsysExport&) = delete;
  NsysExport& operator=(const NsysExport&) = delete;
  ~NsysExport() { sqlite3_close(database_); }

  void Run(const std::string& text) {
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(database_, text.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  }

  // Of a process: three steps of two kernels of `kernel_us` and a copy; a step takes 1,000 us.
  void AddProcess(int64_t process, int64_t device, int64_t kernel_us) {
    const int64_t pid = process << 24U;
    for (int64_t step = 0; step < 3; ++step) {
      const int64_t at = (step * 1000 + 100) * 1000;
      Run(fmt::format("INSERT INTO NVTX_EVENTS VALUES ({}, {}, 59, {}, {}, {})", at, at + 1'000'000,
                      step == 2 ? "NULL" : fmt::format("'iteration {}'", step),
                      step == 2 ? "6" : "NULL", pid + 7));
      for (int64_t task = 0; task < 3; ++task) {
        const int64_t call = at + (10 + task * 10) * 1000;
        const int64_t begin = at + (16 + task * kernel_us) * 1000;
        const int64_t id = ++correlation_;
        Run(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, 0, {}, {}, {})",
                        call, call + 5000, pid + 7, id, task < 2 ? 3 : 4));
        if (task < 2) {
          Run(fmt::format(
              "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({}, {}, {}, 1, 7, {}, {}, 1, 2)",
              begin, begin + kernel_us * 1000, device, id, pid));
        } else {
          Run(fmt::format(
              "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({}, {}, {}, 7, {}, {}, 4096, 1)",
              begin, begin + 20'000, device, id, pid));
        }
      }
      Run(fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({}, {}, 0, {}, {}, 5)",
                      at + 60'000, at + 990'000, pid + 7, ++correlation_));
    }
  }

  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  ScratchFolder folder_;
  std::filesystem::path path_;
  sqlite3* database_ = nullptr;
  int64_t correlation_ = 0;
};

ImportOptions Options() {
  ImportOptions options;
  options.cluster = prism::testing::TestCluster();
  return options;
}

TEST(Nsys, steps_are_ranges_and_each_process_is_a_rank) {
  NsysExport file;
  file.AddProcess(200, 0, 300);
  file.AddProcess(100, 1, 200);
  const Result<std::vector<KinetoTrace>> traces = ReadNsysTraces(file.path());
  ASSERT_TRUE(traces.ok()) << traces.status().message();
  ASSERT_EQ(traces->size(), 2U);
  const KinetoTrace& first = traces->front();
  EXPECT_EQ(first.gpu, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(first.steps.size(), 3U);
  EXPECT_EQ(first.steps[2].name, "iteration 2");
  ASSERT_EQ(first.tasks.size(), 9U);
  EXPECT_EQ(first.tasks[0].name, "void gemm<float>(int)");
  EXPECT_EQ(first.tasks[0].duration_ns, 300'000);  // the process on the lower device
  EXPECT_EQ(first.tasks[2].name, "Memcpy HtoD");
  EXPECT_EQ(first.tasks[2].bytes, 4096);
  EXPECT_EQ(first.calls[0].name, "cudaLaunchKernel");
  EXPECT_TRUE(first.ops.empty());
  EXPECT_EQ(ReadNsysTraces(file.path(), "", KinetoParts::kAll)->front().ops.size(), 3U);

  const Result<ImportResult> result = ImportNsys({file.path()}, Options());
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->graph.ranks.size(), 2U);
  EXPECT_EQ(result->tasks, 6);
  const auto replayed = replayer::Replay(result->graph, {});
  ASSERT_TRUE(replayed.ok()) << replayed.status().message();
  EXPECT_NEAR(static_cast<double>(replayed->steady_iteration_ns()), 1e6, 2e3);
}

TEST(Nsys, a_range_that_is_asked_for_is_the_step) {
  NsysExport file;
  file.AddProcess(200, 0, 300);
  file.Run("INSERT INTO NVTX_EVENTS VALUES (1100000, 1400000, 59, 'half', NULL, 3355443207)");
  KinetoChoice choice;
  choice.range = "half";
  const Result<ImportResult> result = ImportNsys({file.path()}, Options(), choice);
  ASSERT_TRUE(result.ok()) << result.status().message();
  choice.range = "none";
  EXPECT_FALSE(ImportNsys({file.path()}, Options(), choice).ok());
}

// The machine's number of a GPU counts, not the process's own; MPI's rank counts most.
TEST(Nsys, processes_are_in_the_order_of_gpus_and_ranks) {
  NsysExport file;
  file.AddProcess(200, 0, 300);
  file.AddProcess(100, 0, 200);
  file.Run(
      "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT, pid INT, uuid TEXT);"
      "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 200, ''), (1, 0, 100, '');"
      "INSERT INTO TARGET_INFO_GPU VALUES (1, 'GPU Y', 5)");
  const auto first_kernels = [&] {
    const Result<std::vector<KinetoTrace>> traces = ReadNsysTraces(file.path());
    EXPECT_TRUE(traces.ok()) << traces.status().message();
    EXPECT_EQ(traces->back().gpu, "GPU Y");
    return std::pair(traces->front().tasks[0].duration_ns, traces->back().rank);
  };
  EXPECT_EQ(first_kernels(), std::pair(DurationNs{300'000}, int64_t{-1}));
  file.Run(
      fmt::format("CREATE TABLE MPI_RANKS (globalTid INT, rank INT);"
                  "INSERT INTO MPI_RANKS VALUES ({}, 0), ({}, 1)",
                  (100LL << 24U) + 1, (200LL << 24U) + 1));
  EXPECT_EQ(first_kernels(), std::pair(DurationNs{300'000}, int64_t{0}));
}

TEST(Nsys, graphs_copies_and_names_of_other_releases_are_read) {
  NsysExport file;
  file.AddProcess(200, 0, 300);
  file.Run(fmt::format(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, graphId INT,"
      " graphExecId INT, contextId INT, greenContextId INT, streamId INT, correlationId INT,"
      " globalPid INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1, 2, 0, 5, 6, 1, NULL, 7, 1, {0});"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (3, 4, 0, 7, 1, {0}, 10, 11);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 6, 0, 1, 7, 1, {0}, 'named', NULL),"
      " (7, 8, 0, 1, 7, 1, {0}, 99, 99)",
      200LL << 24U));
  const Result<std::vector<KinetoTrace>> traces = ReadNsysTraces(file.path());
  ASSERT_TRUE(traces.ok()) << traces.status().message();
  std::vector<std::string> names;
  for (size_t i = 0; i < 4; ++i) {
    names.emplace_back(traces->front().tasks[i].name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"CUDA graph 5", "Memcpy HtoD", "named", "(kernel 99)"}));
}

TEST(Nsys, what_would_be_left_out_without_a_word_is_refused) {
  const auto error_after = [](const std::string& change) {
    NsysExport file;
    file.AddProcess(200, 0, 300);
    file.AddProcess(100, 1, 200);
    file.Run(change);
    return ReadNsysTraces(file.path()).status().message();
  };
  EXPECT_THAT(error_after("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = NULL;"
                          "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET globalPid = NULL"),
              HasSubstr("2 processes called CUDA"));
  EXPECT_THAT(error_after("DELETE FROM StringIds"), HasSubstr("have no names"));
  EXPECT_THAT(error_after("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE globalTid < 3000000000"),
              HasSubstr("process 100, but none of the calls"));
  EXPECT_THAT(error_after("DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME"),
              HasSubstr("contains no kernels with the calls"));
}

TEST(Nsys, nothing_is_left_beside_the_file) {
  const ScratchFolder folder;
  const std::string path = folder / "a %41?.sqlite";
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  sqlite3_exec(database, "PRAGMA journal_mode = WAL; CREATE TABLE StringIds (id, value)", nullptr,
               nullptr, nullptr);
  sqlite3_close(database);
  EXPECT_THAT(ReadNsysTraces(path).status().message(), HasSubstr("contains no kernels"));
  const std::filesystem::directory_iterator files(std::filesystem::path(path).parent_path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(Nsys, times_that_are_none_are_counted) {
  NsysExport file;
  file.AddProcess(200, 0, 300);
  file.Run(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (9, 3, 0, 1, 7, 90, 3355443200, 1, 2), "
      "(NULL, 3, 0, 1, 7, 91, 3355443200, 1, 2)");
  const Result<std::vector<KinetoTrace>> traces = ReadNsysTraces(file.path());
  ASSERT_TRUE(traces.ok());
  EXPECT_EQ(traces->front().untimed, 2);
}

TEST(Nsys, rows_that_are_there_twice_count_once) {
  NsysExport file;
  file.AddProcess(200, 0, 300);
  for (const char* const table : {"RUNTIME", "KERNEL"}) {
    file.Run(
        fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_{0} SELECT * FROM "
                    "CUPTI_ACTIVITY_KIND_{0}",
                    table));
  }
  const Result<std::vector<KinetoTrace>> traces = ReadNsysTraces(file.path());
  ASSERT_TRUE(traces.ok());
  EXPECT_EQ(traces->front().tasks.size(), 9U);
  EXPECT_EQ(traces->front().repeated, 12 + 6);
}

TEST(Nsys, what_is_no_export_or_without_end_is_refused) {
  const ScratchFolder folder;
  const std::string other = folder / "other.sqlite";
  std::ofstream(other) << "SQLite format 3" << std::string(4096, 'x');
  EXPECT_EQ(ReadNsysTraces(other).status().code(), StatusCode::kBadFile);
  NsysExport empty("empty.sqlite");
  EXPECT_EQ(ReadNsysTraces(empty.path()).status().code(), StatusCode::kBadFile);
  // A view instead of a table never ends.
  empty.Run(
      "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH "
      "RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start FROM n;");
  EXPECT_EQ(ReadNsysTraces(empty.path()).status().code(), StatusCode::kBadFile);
  // A name of a megabyte, in many rows.
  NsysExport long_names("long.sqlite");
  long_names.Run(
      "UPDATE StringIds SET value = hex(zeroblob(500000)) WHERE id = 1; WITH RECURSIVE n(i) AS "
      "(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) INSERT INTO "
      "CUPTI_ACTIVITY_KIND_KERNEL SELECT i, i + 1, 0, 1, 7, i, 0, 1, 2 FROM n;");
  EXPECT_EQ(ReadNsysTraces(long_names.path()).status().code(), StatusCode::kBadFile);
}

}  // namespace
}  // namespace prism::slicer
