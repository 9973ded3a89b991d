// The checks that need a GPU, as far as a machine without one can follow them: everything builds,
// loads, and says what it would run.
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
        "--device-scale 2", "values_under_mpirun"}) {
    EXPECT_THAT(run.output, HasSubstr(text));
  }
}

#ifdef PRISM_CARRIED
// What is carried runs from another folder, with libraries of its own; where no GPU is, the checks
// say so.
TEST(GpuExperiments, what_is_carried_runs_and_checks_want_a_gpu) {
  const ScratchFolder scratch;
  const std::string carried = scratch / "carried";
  const Finished collected = RunCommand({PRISM_GPU_EXPERIMENTS "/collect.sh", carried});
  ASSERT_EQ(collected.code, 0) << collected.output;
  const std::string libraries = "LD_LIBRARY_PATH=" + carried + "/libraries";
  const std::string program = carried + "/bin/prism-emulate";
  EXPECT_THAT(RunCommand({"env", libraries, "ldd", program}).output,
              HasSubstr(carried + "/libraries/libmpi.so"));
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

TEST(GpuExperiments, unknown_options_are_refused) {
  EXPECT_EQ(RunCommand({PRISM_GPU_EXPERIMENTS "/run_all.sh", "--quick"}).code, 2);
}

}  // namespace
}  // namespace prism
