// The checks that need a GPU, as far as a machine without one can follow them: everything builds,
// loads, and says what it would run.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job_run.h"

namespace prism {
namespace {

using ::testing::HasSubstr;

TEST(GpuExperiments, dry_run_builds_everything_and_names_every_case) {
  const ScratchFolder scratch;
  const Finished run =
      RunCommand({PRISM_GPU_EXPERIMENTS "/run_all.sh", "--dry-run", "--out", scratch / "results"});
  ASSERT_EQ(run.code, 0) << run.output;
  for (const char* text :
       {"libprism_probe.so can be loaded", "hold by kernel, 10 us", "hold by host_callback",
        "matrix products, float8", "NCCL, one rank", "llama3-70b, eager", "gpt3-1.3b, megatron",
        "--device-scale 2", "values_under_mpirun",
        "prism-emulate --record-device cuda --target-gpus 1"}) {
    EXPECT_THAT(run.output, HasSubstr(text));
  }
}

#ifdef PRISM_CARRIED
// The collected files run from another folder, with their own libraries; without a GPU the checks
// say so.
TEST(GpuExperiments, what_is_carried_runs_and_checks_want_a_gpu) {
  const ScratchFolder scratch;
  const std::string carried = scratch / "carried";
  const Finished collected = RunCommand({PRISM_GPU_EXPERIMENTS "/collect.sh", carried});
  ASSERT_EQ(collected.code, 0) << collected.output;
  const std::string libraries = "LD_LIBRARY_PATH=" + carried + "/libraries";
  const std::string program = carried + "/bin/prism-emulate";
  EXPECT_TRUE(Exists(carried + "/libraries/libmpi.so.40"));
  const Finished run =
      RunCommand({"env", libraries, program, "--target-gpus", "8192", "--dry-run"});
  EXPECT_EQ(run.code, 0) << run.output;
  const Finished checks =
      RunCommand({"env", "CUDA_VISIBLE_DEVICES=", PRISM_GPU_EXPERIMENTS "/run_all.sh", "--build",
                  carried, "--out", scratch / "gpu"});
  EXPECT_EQ(checks.code, 5) << checks.output;
  EXPECT_THAT(checks.output, HasSubstr("no GPU here"));
}
#endif

TEST(GpuExperiments, unknown_options_and_programs_are_refused) {
  EXPECT_EQ(RunCommand({PRISM_GPU_EXPERIMENTS "/run_all.sh", "--quick"}).code, 2);
  const Finished absent =
      RunCommand({PRISM_GPU_EXPERIMENTS "/run_all.sh", "--stand-in", "absent.so"});
  EXPECT_EQ(absent.code, 2);
  EXPECT_THAT(absent.output, HasSubstr("--stand-in absent.so: build it"));
  const Finished misspelt =
      RunCommand({PRISM_GPU_EXPERIMENTS "/run_all.sh", "--only", "holds,hold"});
  EXPECT_EQ(misspelt.code, 2);
  EXPECT_THAT(misspelt.output, HasSubstr("--only hold:"));
}

// The script with programs that only exit with given codes.
class RunAll : public testing::Test {
 protected:
  void SetUp() override {
    WriteText(folder_ / "python", R"(#!/bin/sh
case "$1 $2" in
  *goals.py*) echo told ;;
  "-u "*) echo called; sleep "$PROGRAM_SLEEPS"; exit "$PROGRAM_ENDS" ;;
esac
)");
    RunCommand({"chmod", "+x", folder_ / "python"});
    RunCommand({"mkdir", "-p", folder_ / "build/probe"});
    WriteText(folder_ / "build/probe/libprism_probe.so", "");
  }

  Finished Run(const std::string& sleeps, const std::string& ends, const std::string& limit) {
    return RunCommand({"env", "PYTHON=" + folder_ / "python", "PROGRAM_SLEEPS=" + sleeps,
                       "PROGRAM_ENDS=" + ends, PRISM_GPU_EXPERIMENTS "/run_all.sh", "--build",
                       folder_ / "build", "--out", folder_ / "out", "--only", "holds", "--limit",
                       limit, "--archive", folder_ / "results.tgz"});
  }

  [[nodiscard]] size_t Calls() const {
    const std::string log = ReadText(folder_ / "out/holds.log");
    return static_cast<size_t>(std::count(log.begin(), log.end(), '\n'));
  }

  ScratchFolder folder_;
};

TEST_F(RunAll, goals_that_are_missed_end_with_a_code_of_their_own) {
  EXPECT_EQ(Run("0", "0", "600").code, 0);
  EXPECT_EQ(Run("0", "4", "600").code, 4);
  EXPECT_EQ(Run("0", "1", "600").code, 1);
  EXPECT_EQ(Calls(), 3U);
  EXPECT_TRUE(Exists(folder_ / "results.tgz"));
}

TEST_F(RunAll, a_lost_device_gives_the_rest_to_a_new_process_within_the_limit) {
  const Finished run = Run("0", "75", "600");
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.output, HasSubstr("holds ends with 75"));
  EXPECT_EQ(Calls(), 3U);
  RunCommand({"rm", "-r", folder_ / "out"});
  const Finished late = Run("4", "75", "20");  // two times four seconds leave less than fifteen
  EXPECT_EQ(late.code, 1);
  EXPECT_THAT(late.output, HasSubstr("no time left for holds"));
  EXPECT_LT(Calls(), 3U);
  EXPECT_TRUE(Exists(folder_ / "results.tgz"));
}

}  // namespace
}  // namespace prism
