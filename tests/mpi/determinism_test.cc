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
    const std::vector<std::string> job = {PRISM_EMULATE,
                                          "--target-gpus",
                                          "16",
                                          "--model",
                                          "gpt3-1.3b",
                                          "--tp",
                                          "2",
                                          "--pp",
                                          "4",
                                          "--global-batch-size",
                                          "8",
                                          "--iterations",
                                          "2",
                                          "--out",
                                          folder_ / name,
                                          "--log-level",
                                          "error"};
    command.insert(command.end(), job.begin(), job.end());
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

}  // namespace
}  // namespace prism
