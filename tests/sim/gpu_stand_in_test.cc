// Every program of experiments/gpu/ from end to end with the tests' GPU in place of one: each of
// its parts gives a result, and each goal has something to be held against.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/job_run.h"

namespace prism {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kLongestS = 840;

class GpuStandIn : public ::testing::Test {
 protected:
  // What the program wrote.
  nlohmann::json Run(const std::string& name) {
    RunningCommand command({PRISM_GPU_EXPERIMENTS "/run_all.sh", "--stand-in", PRISM_FAKE_GPU,
                            "--out", out_, "--only", name},
                           folder_ / "said");
    const Finished run = command.Wait(kLongestS);
    EXPECT_TRUE(run.code == 0 || run.code == 4) << run.code << run.output;  // its goals are a GPU's
    EXPECT_THAT(run.output, Not(HasSubstr("not measured: "))) << run.output;
    const nlohmann::json written =
        nlohmann::json::parse(ReadText(out_ + "/" + name + ".json"), nullptr, false);
    EXPECT_FALSE(written.is_discarded()) << run.output;
    if (!written.is_object() || !written.contains("parts")) {
      return {};
    }
    EXPECT_GT(written["parts"].size(), 0U);
    for (const auto& [part, value] : written["parts"].items()) {
      EXPECT_FALSE(value.is_object() && value.contains("failed")) << part << value;
    }
    said_ = run.output;
    return written;
  }

  ScratchFolder folder_;
  std::string out_ = folder_ / "gpu";
  std::string said_;
};

TEST_F(GpuStandIn, constants_beside_the_compiler) {
  Run("constants");
  EXPECT_THAT(said_, HasSubstr("Triton kernels compiled ahead"));
}

TEST_F(GpuStandIn, virtual_truth_is_what_prism_calibrate_reads) {
  RunCommand({"mkdir", "-p", out_});
  WriteText(out_ + "/kernel_times.csv",
            "kind,type,m,n,k,batch,seconds,source\n"
            "gelu,bfloat16,2048,8192,1,1,2e-05,drawn\n");
  const nlohmann::json written = Run("virtual_truth");
  for (const auto& [part, value] : written["parts"].items()) {
    if (part.starts_with("compared")) {
      EXPECT_EQ(value["matrix_products"]["count"], 0) << part;
      EXPECT_EQ(value["allocator"]["count"], 0) << part;
    }
  }
  const Finished calibrated = RunCommand(
      {"sh", "-c",
       "cd " + out_ + " && " PRISM_PROGRAM " calibrate $(cat calibrate.txt) -o site.toml"});
  EXPECT_EQ(calibrated.code, 0) << calibrated.output;
  EXPECT_TRUE(Exists(out_ + "/site.toml"));
}

TEST_F(GpuStandIn, recorded_times_are_of_all_ops) {
  const nlohmann::json written = Run("recorded_times");
  EXPECT_EQ(written["goals"][0]["value"], 0) << written["goals"];  // all ops were timed
}

TEST_F(GpuStandIn, kernel_times_is_a_table_that_a_replay_takes) {
  Run("kernel_times");
  const std::string table = ReadText(out_ + "/kernel_times.csv");
  for (const char* row : {"matmul,bfloat16,", "matmul,tf32,", "attention,", "gelu,"}) {
    EXPECT_THAT(table, HasSubstr(row));
  }
}

TEST_F(GpuStandIn, holds_end_by_all_means) {
  Run("holds");
}

TEST_F(GpuStandIn, pass_through_does_as_recorded) {
  Run("pass_through");
}

TEST_F(GpuStandIn, hybrid_runs_end_with_their_values) {
  Run("hybrid");
}

}  // namespace
}  // namespace prism
