// The verbs of prism on the output folder of a real run: they give the run's own numbers.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/golden/command_runner.h"

namespace prism::testing {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kRun =
    "prism-emulate --target-gpus 16 --model gpt3-1.3b --pp 2 --global-batch-size 64 --seed 3 "
    "--quiet --strict --out run";

std::vector<std::string> KeysOf(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    keys.push_back(key);
  }
  return keys;
}

class VerbsOnRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new CommandFolder(PRISM_GOLDEN_PATH);
    output_ = new CommandOutput(folder_->Run(kRun));
  }

  static void TearDownTestSuite() {
    delete folder_;
    delete output_;
  }

  void SetUp() override { ASSERT_EQ(output_->exit_code, 0) << output_->standard_error; }

  static CommandOutput Run(const std::string& command) { return folder_->Run(command); }

  static Json Summary() { return Json::parse(Run("cat run/summary.json").standard_output); }

  static CommandFolder* folder_;
  static CommandOutput* output_;
};

CommandFolder* VerbsOnRun::folder_ = nullptr;
CommandOutput* VerbsOnRun::output_ = nullptr;

TEST_F(VerbsOnRun, replay_gives_the_bytes_of_summary_json) {
  const CommandOutput replay = Run("prism replay run/graph.prism --format json");
  EXPECT_EQ(replay.exit_code, 0) << replay.standard_error;
  EXPECT_EQ(replay.standard_output, Run("cat run/summary.json").standard_output);
}

TEST_F(VerbsOnRun, the_final_block_is_short_and_names_the_next_command) {
  const std::string& text = output_->standard_output;
  EXPECT_LE(std::ranges::count(text, '\n'), 25) << text;
  const size_t next = text.find("prism mem ");
  ASSERT_NE(next, text.npos) << text;
  const CommandOutput mem = Run(text.substr(next, text.find('\n', next) - next));
  EXPECT_EQ(mem.exit_code, 0) << mem.standard_error;
}

TEST_F(VerbsOnRun, summary_has_every_key_of_the_contract) {
  const Json summary = Summary();
  EXPECT_THAT(KeysOf(summary),
              ElementsAre("job", "cluster", "device", "device_scale", "torch", "checked",
                          "iteration_time_s", "iteration_time_low_s", "iteration_time_high_s",
                          "mean_iteration_time_s", "odd_iterations", "phases", "tokens_per_s",
                          "model_tflops_per_gpu", "mfu", "hfu", "breakdown", "peak_memory", "graph",
                          "sandbox_ranks", "warnings", "assumptions"));
  EXPECT_THAT(KeysOf(summary["job"]),
              ElementsAre("name", "target_gpus", "tp", "pp", "dp", "cp", "ep", "vpp",
                          "micro_batch_size", "global_batch_size", "seq_len", "microbatches",
                          "model_params", "steps_per_iteration"));
  EXPECT_THAT(KeysOf(summary["peak_memory"]),
              ElementsAre("rank", "allocated_bytes", "reserved_bytes", "device_bytes"));
  double parts = 0;
  for (const auto& [key, part] : summary["breakdown"].items()) {
    parts += part.get<double>();
  }
  EXPECT_NEAR(parts, 1, 1e-9);
}

TEST_F(VerbsOnRun, mem_explains_the_worst_rank_to_the_byte) {
  const CommandOutput output = Run("prism mem run/graph.prism --format json");
  const Json mem = Json::parse(output.standard_output);
  const Json peak = Summary()["peak_memory"];
  EXPECT_EQ(mem["rank"], peak["rank"]);
  EXPECT_EQ(mem["device_bytes"], peak["device_bytes"]);
  int64_t inside = 0;
  for (const Json& part : mem["at_peak"]) {
    inside += part["bytes"].get<int64_t>();
  }
  EXPECT_EQ(inside, peak["allocated_bytes"].get<int64_t>());
  int64_t outside = 0;
  for (const Json& part : mem["outside"]) {
    outside += part["bytes"].get<int64_t>();
  }
  EXPECT_EQ(peak["reserved_bytes"].get<int64_t>() + outside, peak["device_bytes"].get<int64_t>());
  EXPECT_THAT(mem["peak_op"].get<std::string>(), HasSubstr("::"));
}

TEST_F(VerbsOnRun, run_json_names_what_it_ran_on) {
  const Json run = Json::parse(Run("cat run/run.json").standard_output);
  EXPECT_THAT(KeysOf(run["versions"]), ElementsAre("prism", "torch", "cuda", "nccl", "mpi"));
  EXPECT_THAT(run["versions"]["torch"].get<std::string>(), HasSubstr("."));
  EXPECT_EQ(run["versions"]["cuda"], "13.0");
  EXPECT_EQ(run["versions"]["nccl"], "2.28.9");
  EXPECT_TRUE(run["versions"]["mpi"].is_null());
  EXPECT_TRUE(run["input_hashes"]["files"].empty());
}

TEST_F(VerbsOnRun, run_json_holds_a_hash_of_every_file_that_was_read) {
  const auto files_of = [](const std::string& prepare) {
    const CommandOutput output =
        Run(prepare + " && prism-emulate --config again.toml --force --out hashed");
    EXPECT_EQ(output.exit_code, 0) << output.standard_error;
    return Json::parse(Run("cat hashed/run.json").standard_output);
  };
  const Json run = files_of(
      "printf 'quiet = true\\ngraph = \"run/graph.prism\"\\nsandbox_ranks = \"none\"\\n"
      "cluster = \"c.toml\"\\n' > again.toml && prism presets h100-8x > c.toml && "
      "(echo 'measured_kernels = \"k.csv\"' && cat c.toml) > d.toml && mv d.toml c.toml && "
      "(echo kind,type,m,n,k,batch,seconds,source && echo matmul,bf16,1,1,1,1,1e-5,x) > k.csv");
  EXPECT_THAT(KeysOf(run["input_hashes"]["files"]),
              ElementsAre("again.toml", "c.toml", "k.csv", "run/graph.prism"));
  EXPECT_TRUE(run["versions"]["torch"].is_null()) << "nothing but a replay";
  const Json other = files_of("echo >> c.toml");
  for (const auto& [path, hash] : run["input_hashes"]["files"].items()) {
    EXPECT_EQ(other["input_hashes"]["files"][path] != hash, path == "c.toml") << path;
  }
}

// A graph is a complete run: replayed without any program it gives the same numbers.
TEST_F(VerbsOnRun, a_run_from_the_graph_alone_differs_in_its_sandbox_ranks_only) {
  const CommandOutput again =
      Run("prism-emulate --graph run/graph.prism --sandbox-ranks none --quiet --out again");
  ASSERT_EQ(again.exit_code, 0) << again.standard_error;
  const Json diff = Json::parse(Run("prism diff run again --format json").standard_output);
  EXPECT_TRUE(diff["graphs"].empty()) << diff;
  for (const Json& number : diff["numbers"]) {
    const std::string path = number["path"];
    EXPECT_TRUE(path.starts_with("sandbox_ranks") || path == "graph.bytes") << path;
  }
}

// Without --seed jitter is that of the graph's run; with it the new graph has the new seed.
TEST_F(VerbsOnRun, a_run_from_the_graph_and_its_verbs_have_one_seed) {
  const auto jittered = [](const std::string& seed, const std::string& out) {
    return Run("prism-emulate --graph run/graph.prism --sandbox-ranks none --perturb jitter:0.1 "
               "--quiet --format json " +
               seed + "--out " + out)
        .standard_output;
  };
  const auto replayed = [](const std::string& folder) {
    const std::string command = " --perturb jitter:0.1 --format json";
    const std::string text =
        Run("prism replay " + folder + "/graph.prism" + command).standard_output;
    return Json::parse(text)["iteration_time_s"];
  };
  const Json usual = Json::parse(jittered("", "usual"))["iteration_time_s"];
  EXPECT_EQ(usual, replayed("run"));
  EXPECT_EQ(usual, replayed("usual"));
  const Json other = Json::parse(jittered("--seed 5 ", "other"))["iteration_time_s"];
  EXPECT_NE(other, usual);
  EXPECT_EQ(other, replayed("other"));
}

TEST_F(VerbsOnRun, device_auto_without_a_gpu_is_the_virtual_device_and_a_warning) {
  const CommandOutput run =
      Run("CUDA_VISIBLE_DEVICES= prism-emulate --graph run/graph.prism --sandbox-ranks none "
          "--device auto --quiet --out auto --format json");
  ASSERT_EQ(run.exit_code, 0) << run.standard_error;
  const Json summary = Json::parse(run.standard_output);
  EXPECT_EQ(summary["device"], "virtual");
  EXPECT_TRUE(summary["device_scale"].is_null());
  const auto is_fallback = [](const Json& warning) {
    return warning["code"] == "device_fallback" && warning["count"] == 1;
  };
  EXPECT_TRUE(std::ranges::any_of(summary["warnings"], is_fallback)) << summary["warnings"];
  const Json report = Json::parse(Run("prism report auto --format json").standard_output);
  EXPECT_EQ(report["warnings"], summary["warnings"]);
  EXPECT_THAT(Run("cat auto/config.toml").standard_output, HasSubstr("device = \"virtual\""));
}

TEST_F(VerbsOnRun, the_graph_is_valid_and_equal_to_itself) {
  EXPECT_EQ(Run("prism graph validate run/graph.prism").exit_code, 0);
  EXPECT_EQ(Run("prism diff run run --strict").standard_output, "equal\n");
}

}  // namespace
}  // namespace prism::testing
