// Work that a verb distributes over processes, and output before any work: the same without mpirun
// and with any number of processes, even more than items; the same for failures.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job_run.h"

namespace prism {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Spread : public testing::Test {
 protected:
  void SetUp() override {
    const Finished made = RunCommand({PRISM_MAKE_GRAPH, "pipeline", folder_ / "a.prism"});
    ASSERT_EQ(made.code, 0) << made.output;
  }

  Finished Replay(const std::string& processes, const std::vector<std::string>& options) {
    std::vector<std::string> command;
    if (!processes.empty()) {
      command = {PRISM_MPIRUN, "-n", processes};
    }
    for (const std::string& word :
         {std::string(PRISM), std::string("replay"), folder_ / "a.prism"}) {
      command.push_back(word);
    }
    command.insert(command.end(), options.begin(), options.end());
    return RunCommand(command);
  }

  ScratchFolder folder_;
};

TEST_F(Spread, samples_are_the_same_for_any_number_of_processes) {
  for (const char* count : {"2", "13"}) {
    const std::vector<std::string> options = {"--perturb", "jitter:0.1", "--samples",
                                              count,       "--format",   "json"};
    const Finished alone = Replay("", options);
    ASSERT_EQ(alone.code, 0) << alone.output;
    EXPECT_THAT(alone.output, HasSubstr("\"p50\""));
    for (const char* processes : {"1", "2", "3"}) {
      const Finished spread = Replay(processes, options);
      EXPECT_EQ(spread.code, 0) << spread.output;
      EXPECT_EQ(spread.output, alone.output) << processes << " processes";
    }
  }
}

TEST_F(Spread, predictions_of_published_runs_are_the_same_for_any_number_of_processes) {
  const std::string table = PRISM_SOURCE_DIR "/tests/experiments/published/made_up_runs.csv";
  const std::vector<std::string> bench = {PRISM, "bench", "accuracy", table, "--format", "json"};
  const Finished alone = RunCommand(bench);
  ASSERT_EQ(alone.code, 0) << alone.output;
  for (const char* processes : {"1", "2", "5"}) {
    std::vector<std::string> command = {PRISM_MPIRUN, "-n", processes};
    command.insert(command.end(), bench.begin(), bench.end());
    const Finished spread = RunCommand(command);
    EXPECT_EQ(spread.code, 0) << spread.output;
    EXPECT_EQ(spread.output, alone.output) << processes << " processes";
  }
}

TEST_F(Spread, what_is_not_spread_is_printed_once) {
  const Finished alone = Replay("", {});
  ASSERT_EQ(alone.code, 0) << alone.output;
  EXPECT_EQ(Replay("3", {}).output, alone.output);
}

TEST_F(Spread, what_needs_no_run_is_said_once) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--print-config", "--target-gpus", "64"}, {"--bogus"}}) {
    std::vector<std::string> command = {PRISM_EMULATE};
    command.insert(command.end(), words.begin(), words.end());
    const Finished alone = RunCommand(command);
    command.insert(command.begin(), {PRISM_MPIRUN, "-n", "3"});
    const Finished spread = RunCommand(command);
    EXPECT_EQ(spread.code, alone.code) << spread.output;
    EXPECT_EQ(spread.output.find(alone.output), spread.output.rfind(alone.output)) << spread.output;
    EXPECT_THAT(spread.output, HasSubstr(alone.output));
  }
}

// What all processes find before MPI has started, and what all but the first find.
TEST_F(Spread, failure_is_said_once_for_all_processes_that_have_it) {
  WriteText(folder_ / "bad.toml", "target_gpus = \"many\"\n");
  const std::string absent = folder_ / "absent";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{PRISM_EMULATE, "--target-gpus", "64", "--config", absent},
        {PRISM_EMULATE, "--config", folder_ / "bad.toml"},
        {PRISM_EMULATE, "--target-gpus", "64", "--model", absent + ".toml"},
        {PRISM, "report", absent},
        {PRISM, "search", "--model", absent + ".toml", "--target-gpus", "64"}}) {
    const Finished alone = RunCommand(words);
    EXPECT_NE(alone.code, 0) << alone.output;
    std::vector<std::string> command = {PRISM_MPIRUN, "-n", "4"};
    command.insert(command.end(), words.begin(), words.end());
    const Finished spread = RunCommand(command);
    EXPECT_EQ(spread.code, alone.code) << spread.output;
    EXPECT_THAT(spread.output, HasSubstr(alone.output));
    EXPECT_THAT(spread.output, Not(HasSubstr("process 1: "))) << spread.output;
    EXPECT_EQ(spread.output.find(alone.output), spread.output.rfind(alone.output)) << spread.output;
  }
}

TEST_F(Spread, failure_of_another_process_alone_is_said_by_it) {
  const std::vector<std::string> job = {"--target-gpus", "64", "--out", folder_ / "out"};
  std::vector<std::string> command = {PRISM_MPIRUN, "-n", "1", PRISM_EMULATE};
  command.insert(command.end(), job.begin(), job.end());
  command.insert(command.end(), {":", "-n", "1", PRISM_EMULATE});
  command.insert(command.end(), job.begin(), job.end());
  command.insert(command.end(), {"--config", folder_ / "absent"});
  const Finished run = RunCommand(command);
  EXPECT_EQ(run.code, 3) << run.output;
  EXPECT_THAT(run.output, HasSubstr("process 1: prism-emulate: cannot read"));
}

TEST_F(Spread, failures_end_all_processes) {
  const Finished stalled =
      Replay("3", {"--perturb", "jitter:0.1", "--perturb", "kill:3@1", "--samples", "7"});
  EXPECT_EQ(stalled.code, 1) << stalled.output;
  EXPECT_THAT(stalled.output, HasSubstr("prism replay: the replay stalls"));
  EXPECT_THAT(stalled.output, Not(HasSubstr("process 1: prism replay")));
  const Finished wrong = Replay("2", {"--samples", "7"});
  EXPECT_EQ(wrong.code, 2) << wrong.output;
  EXPECT_THAT(wrong.output, HasSubstr("--samples needs noise"));
  EXPECT_TRUE(Descendants().empty());
}

// MPICH tells its processes by PMI alone; a library of Open MPI then believes to be alone.
TEST_F(Spread, another_mpi_and_a_missing_one_are_named) {
  const std::string replay = std::string(PRISM) + " replay --perturb jitter:0.1 --samples 2 " +
                             std::string(folder_ / "a.prism");
  const Finished other = RunCommand({"sh", "-c", "PMI_RANK=0 PMI_SIZE=2 exec " + replay});
  EXPECT_EQ(other.code, 5);
  EXPECT_THAT(other.output,
              HasSubstr("the launcher started 2 processes, Open MPI's library sees 1"));
  const std::string libraries = folder_ / "libraries";
  const Finished missing = RunCommand({"sh", "-c",
                                       "mkdir " + libraries + " && : > " + libraries +
                                           "/libmpi.so.40 && LD_LIBRARY_PATH=" + libraries +
                                           " PMIX_RANK=0 exec " + replay});
  EXPECT_EQ(missing.code, 5);
  EXPECT_THAT(missing.output, HasSubstr("(Debian's package openmpi-bin)"));
}

}  // namespace
}  // namespace prism
