// The deterministic files of a run are the same bytes without mpirun, with one to four worker
// processes, and again. The environment lets mpirun run as root and oversubscribe (CMakeLists.txt).
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job_run.h"

namespace prism {
namespace {

class Determinism : public testing::Test {
 protected:
  void Run(const std::string& name, const std::vector<std::string>& launcher) {
    std::vector<std::string> command = launcher;
    const std::vector<std::string> common = {
        PRISM_EMULATE, "--out",         folder_ / name, "--iterations", "2", "--log-level",
        "error",       "--target-gpus", "16",           "--pp",         "4"};
    command.insert(command.end(), common.begin(), common.end());
    command.insert(command.end(), job_.begin(), job_.end());
    const Finished run = RunCommand(command);
    ASSERT_EQ(run.code, 0) << run.output;
  }

  void ExpectSame(const std::string& name) {
    for (const char* file : {"/summary.json", "/ranks.csv", "/communicators.csv", "/graph.prism"}) {
      const std::string expected = ReadText(folder_ / ("first" + std::string(file)));
      EXPECT_FALSE(expected.empty()) << file;
      EXPECT_TRUE(ReadText(folder_ / (name + file)) == expected) << name << file;
    }
  }

  ScratchFolder folder_;
  std::vector<std::string> job_ = {"--tp", "2", "--global-batch-size", "8", "--model", "gpt3-1.3b"};
};

TEST_F(Determinism, four_files_are_the_same_for_any_number_of_processes_and_again) {
  ASSERT_NO_FATAL_FAILURE(Run("first", {}));
  ASSERT_NO_FATAL_FAILURE(Run("again", {}));
  ExpectSame("again");
  for (const char* processes : {"1", "2", "4"}) {
    const std::string name = std::string("mpirun-") + processes;
    ASSERT_NO_FATAL_FAILURE(Run(name, {PRISM_MPIRUN, "-n", processes}));
    ExpectSame(name);
    EXPECT_THAT(ReadText(folder_ / (name + "/run.json")),
                testing::ContainsRegex("\"mpi\": \"[^\"]*MPI"));
  }
  EXPECT_TRUE(Descendants().empty());
}

TEST_F(Determinism, four_files_of_experts_are_the_same_for_any_number_of_processes) {
  job_ = {"--tp", "2", "--global-batch-size", "8",  "--model", "mixtral-8x7b",
          "--ep", "2", "--seq-len",           "256"};
  ASSERT_NO_FATAL_FAILURE(Run("first", {}));
  for (const char* processes : {"2", "3"}) {
    const std::string name = std::string("mpirun-") + processes;
    ASSERT_NO_FATAL_FAILURE(Run(name, {PRISM_MPIRUN, "-n", processes}));
    ExpectSame(name);
  }
  EXPECT_THAT(ReadText(folder_ / "first/summary.json"), testing::ContainsRegex("\"ep\": 2,"));
  // Rank, role, stage, tp, dp, cp and ep rank: ep is inside dp and outside tp.
  EXPECT_THAT(ReadText(folder_ / "first/ranks.csv"),
              testing::AllOf(testing::HasSubstr("\n1,stage 0,0,1,0,0,0,"),
                             testing::HasSubstr("\n2,stage 0,0,0,1,0,1,"),
                             testing::HasSubstr("\n7,stage 1,1,1,1,0,1,")));
}

TEST_F(Determinism, four_files_of_sharded_states_are_the_same_for_any_number_of_processes) {
  job_ = {"--tp",   "2", "--global-batch-size", "8", "--model", "gpt3-1.3b", "--seq-len", "256",
          "--zero", "3"};
  ASSERT_NO_FATAL_FAILURE(Run("first", {}));
  for (const char* processes : {"2", "4"}) {
    const std::string name = std::string("mpirun-") + processes;
    ASSERT_NO_FATAL_FAILURE(Run(name, {PRISM_MPIRUN, "-n", processes}));
    ExpectSame(name);
  }
}

// Ranks that are recorded together, one of them for what rank 2 tells it
// (tests/programs/raw_pipeline.cc).
TEST_F(Determinism, four_files_of_ranks_that_wait_for_each_other_are_the_same) {
  if (std::string(PRISM_RAW_PIPELINE).empty()) {
    GTEST_SKIP() << "no torch wheel with a Python beside it";
  }
  const auto run = [&](const std::string& name, const std::vector<std::string>& launcher) {
    job_ = {"--", PRISM_RAW_PIPELINE, folder_ / (name + ".id"), "4", "ask"};
    Run(name, launcher);
  };
  ASSERT_NO_FATAL_FAILURE(run("first", {}));
  for (const char* processes : {"1", "3"}) {
    const std::string name = std::string("mpirun-") + processes;
    ASSERT_NO_FATAL_FAILURE(run(name, {PRISM_MPIRUN, "-n", processes}));
    ExpectSame(name);
  }
}

}  // namespace
}  // namespace prism
