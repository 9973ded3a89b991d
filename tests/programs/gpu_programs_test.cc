// Users' programs with their sandbox ranks on a real device, simulated by
// tests/support/fake_gpu.cc: the whole run, each op compared with the graph that was recorded on
// the virtual one.
#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/job_run.h"
#include "tests/support/preload.h"

namespace prism {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

class GpuProgram : public ::testing::Test {
 protected:
  void SetUp() override { setenv("PRISM_TEST_DEVICE", PRISM_FAKE_GPU, 1); }
  void TearDown() override { unsetenv("PRISM_TEST_DEVICE"); }

  Finished Run(const std::vector<std::string>& options, const std::vector<std::string>& program) {
    std::vector<std::string> command = {PRISM_EMULATE, "--target-gpus", "64"};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"--", PRISM_PYTHON});
    command.insert(command.end(), program.begin(), program.end());
    return RunCommand(command);
  }

  [[nodiscard]] nlohmann::json Summary(const std::string& out) const {
    return nlohmann::json::parse(ReadText(folder_ / out + "/summary.json"));
  }

  [[nodiscard]] std::vector<std::string> Warnings(const std::string& out) const {
    std::vector<std::string> codes;
    const nlohmann::json summary = Summary(out);
    for (const auto& warning : summary["warnings"]) {
      codes.push_back(warning["code"]);
    }
    return codes;
  }

  ScratchFolder folder_;
};

TEST_F(GpuProgram, ddp_keeps_to_the_graph_and_is_held) {
  const Finished run = Run({"--device", "cuda", "--sandbox-ranks", "0", "--out", folder_ / "out"},
                           {PRISM_PROGRAM_DIR "/training.py", "plain"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_EQ(Summary("out")["device"], "cuda");
  EXPECT_THAT(Warnings("out"), Contains("test_device"));
  EXPECT_THAT(Warnings("out"), Not(Contains("gpu_shared")));
  EXPECT_GT(Summary("out")["iteration_time_s"], 0);
}

// Values go through the exchange of the two ranks. The other 62 contribute what the nearest
// recorded one did, so that the sum, of 1 to 64, is near 2,080. A time that differs from the
// replay's would have ended the run.
TEST_F(GpuProgram, ranks_that_share_a_gpu_exchange_values_and_take_their_times_from_the_replay) {
  const Finished run = Run({"--device", "auto", "--sandbox-ranks", "0,5", "--out", folder_ / "out"},
                           {PRISM_PROGRAM_DIR "/fully_sharded.py"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(Warnings("out"), IsSupersetOf({"test_device", "gpu_shared"}));
  for (const char* const log : {"out/logs/rank0.log", "out/logs/rank5.log"}) {
    EXPECT_THAT(ReadText(folder_ / log), HasSubstr("step 2 total [2049.0, 128.0]"));
    // Each sees one GPU, whichever launcher's variable it uses.
    EXPECT_THAT(ReadText(folder_ / log), HasSubstr("by torchrun, by srun 0 0"));
  }
}

// Kernels of the simulated GPU do nothing: what is known of their results is there all the same,
// behind copies that wait for a hold.
TEST_F(GpuProgram, objects_of_absent_ranks_are_there_before_the_program_reads_them) {
  for (const std::string device : {"--device", "--record-device"}) {
    const bool emulates = device == "--device";
    const Finished run =
        RunCommand({PRISM_EMULATE, "--target-gpus", "8", device, "cuda", "--sandbox-ranks",
                    emulates ? "0,5" : "none", "--force", "--out", folder_ / "out", "--",
                    PRISM_PYTHON, PRISM_PROGRAM_DIR "/objects.py"});
    ASSERT_EQ(run.code, 0) << device << run.output;
    EXPECT_THAT(Warnings("out"), Not(Contains("role_not_timed"))) << run.output;
    if (emulates) {
      EXPECT_THAT(ReadText(folder_ / "out/logs/rank5.log"), HasSubstr("step 3 rows 16"));
    }
  }
}

// Even if an intercepted call has a newer version in the real library, with different arguments.
TEST_F(GpuProgram, calls_looked_up_by_name_come_in_the_version_that_is_asked_for) {
  const std::string libraries = PRISM_LIBRARY_DIR;
  const Finished run =
      RunCommand({"env", "LD_PRELOAD=" + testing::PreloadOf(libraries, "prism-cuda"),
                  "LD_LIBRARY_PATH=" + libraries + "/prism-cuda", "PYTHONWARNINGS=ignore",
                  PRISM_PYTHON, PRISM_PROGRAM_DIR "/driver_calls.py"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.output, HasSubstr("synchronize 0 0\ndevice 0 0 0 0\nstream 0 True None\n"
                                    "look-up 0 True 7\n"));
}

}  // namespace
}  // namespace prism
