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
  for (const char* text : {"libprism_probe.so can be loaded", "hold by kernel, 10 us",
                           "hold by host_callback", "matrix products, float8", "NCCL, one rank",
                           "llama3-70b, eager", "--target-gpus 1, gpt3-13b", "--device-scale 2"}) {
    EXPECT_THAT(run.output, HasSubstr(text));
  }
}

TEST(GpuExperiments, unknown_options_are_refused) {
  EXPECT_EQ(RunCommand({PRISM_GPU_EXPERIMENTS "/run_all.sh", "--quick"}).code, 2);
}

}  // namespace
}  // namespace prism
