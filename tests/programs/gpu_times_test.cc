// Jobs recorded with --record-device cuda on the simulated GPU, whose kernels take times drawn by a
// seed (tests/support/drawn_times.h): what the graph keeps and a replay uses are those times, op by
// op.
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graph/file.h"
#include "replayer/cost/measured_kernels.h"
#include "tests/support/drawn_times.h"
#include "tests/support/job_run.h"

namespace prism {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class GpuTimes : public ::testing::Test {
 protected:
  void SetUp() override { setenv("PRISM_TEST_DEVICE", PRISM_FAKE_GPU, 1); }
  void TearDown() override {
    for (const char* name : {"PRISM_TEST_DEVICE", "FAKE_GPU_SEED", "FAKE_GPU_BYTES"}) {
      unsetenv(name);
    }
  }

  Finished Run(const std::vector<std::string>& options) const {
    std::vector<std::string> command = {PRISM_EMULATE, "--out", folder_ / "out", "--force"};
    command.insert(command.end(), options.begin(), options.end());
    return RunCommand(command);
  }

  [[nodiscard]] nlohmann::json Summary() const {
    return nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  }

  [[nodiscard]] std::string GraphFile() const { return folder_ / "out/graph.prism"; }

  static std::string LastKernel(const graph::Graph& graph, const graph::Program& program) {
    std::string last;
    for (uint32_t op = 0; op < program.size(); ++op) {
      const std::string text = testing::DrawnOp(graph, program, op);
      last = testing::IsDrawnKernel(text) ? text : last;
    }
    return last;
  }

  // What the graph keeps for an op, from begin to end; -1: nothing.
  static int64_t KeptNs(const graph::Graph& graph, const graph::Program& program, uint32_t op) {
    const graph::ParameterTable& table = graph.cluster.parameters;
    if ((program.flags[op] & graph::kDurationFixed) != 0) {
      return program.value[op] - static_cast<int64_t>(table.Value("gpu.kernel_gap_ns"));
    }
    return static_cast<int64_t>(table.ValueOr(replayer::RecordedKey(graph, program, op), -1));
  }

  // Compares all ops of recorded roles with what was drawn, and the sum with that of a replay.
  void CheckTimes(uint64_t seed) const {
    const Result<graph::Graph> graph = graph::ReadGraph(GraphFile());
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const double gap = graph->cluster.parameters.Value("gpu.kernel_gap_ns");
    double drawn_ns = 0;
    for (uint32_t r = 0; r < graph->roles.size(); ++r) {
      const graph::Program& program = graph->roles[r].program;
      const auto ranks = std::ranges::count(graph->ranks.role, r);
      std::vector<uint32_t> ops;
      for (uint32_t op = 0; op < program.size(); ++op) {
        if (!testing::DrawnOp(*graph, program, op).empty()) {
          ops.push_back(op);
        }
      }
      ASSERT_FALSE(ops.empty());
      std::string before = LastKernel(*graph, program);
      for (const uint32_t op : ops) {
        const std::string text = testing::DrawnOp(*graph, program, op);
        const int64_t drawn = testing::DrawnNs(seed, text, before);
        EXPECT_EQ(KeptNs(*graph, program, op), drawn)
            << "seed " << seed << ", " << graph->roles[r].name << " op " << op << ": " << text;
        drawn_ns += static_cast<double>(ranks) * (static_cast<double>(drawn) + gap);
        before = testing::IsDrawnKernel(text) ? text : before;
      }
    }
    const Finished replay =
        RunCommand({PRISM_PROGRAM, "replay", GraphFile(), "--costs", "--format", "json"});
    ASSERT_EQ(replay.code, 0) << replay.output;
    const nlohmann::json costs = nlohmann::json::parse(replay.output)["costs"];
    ASSERT_EQ(costs.size(), 1U) << costs;
    EXPECT_EQ(costs[0]["rule"], "recorded");
    EXPECT_EQ(costs[0]["source"], "measured");
    EXPECT_NEAR(costs[0]["seconds"].get<double>(), drawn_ns * 1e-9, drawn_ns * 1e-15);
  }

  // For several seeds.
  void CheckJob(const std::vector<std::string>& options) const {
    for (const uint64_t seed : {7, 300}) {
      std::printf("seed %d\n", static_cast<int>(seed));
      setenv("FAKE_GPU_SEED", std::to_string(seed).c_str(), 1);
      std::vector<std::string> all = {"--record-device", "cuda", "--sandbox-ranks", "0"};
      all.insert(all.end(), options.begin(), options.end());
      const Finished run = Run(all);
      ASSERT_EQ(run.code, 0) << run.output;
      CheckTimes(seed);
      if (HasFailure()) {
        return;
      }
    }
  }

  ScratchFolder folder_;
};

TEST_F(GpuTimes, of_an_eager_program) {
  CheckJob({"--target-gpus", "2", "--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/training.py", "plain"});
}

TEST_F(GpuTimes, of_cuda_graphs) {
  CheckJob({"--target-gpus", "2", "--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/graphed_steps.py"});
}

TEST_F(GpuTimes, of_parameters_sharded_by_fsdp2) {
  CheckJob({"--target-gpus", "8", "--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/fully_sharded.py"});
}

TEST_F(GpuTimes, of_a_compiled_program) {
  CheckJob({"--target-gpus", "1", "--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/compiled.py"});
}

TEST_F(GpuTimes, of_a_pipeline) {
  CheckJob({"--target-gpus", "2", "--model", "gpt3-1.3b", "--tp", "1", "--pp", "2",
            "--global-batch-size", "4"});
}

// By --device-scale, and for another GPU by the ratio of the model's times.
TEST_F(GpuTimes, are_scaled_by_a_factor_and_for_another_gpu) {
  const std::vector<std::string> job = {"--record-device",
                                        "cuda",
                                        "--sandbox-ranks",
                                        "none",
                                        "--device-scale",
                                        "2",
                                        "--target-gpus",
                                        "2",
                                        "--model",
                                        "gpt3-1.3b",
                                        "--tp",
                                        "1",
                                        "--pp",
                                        "2",
                                        "--global-batch-size",
                                        "4"};
  const Finished run = Run(job);
  ASSERT_EQ(run.code, 0) << run.output;
  const Result<graph::Graph> graph = graph::ReadGraph(GraphFile());
  ASSERT_TRUE(graph.ok());
  const graph::Program& program = graph->roles.front().program;
  std::string before = LastKernel(*graph, program);
  int checked = 0;
  for (uint32_t op = 0; op < program.size(); ++op) {
    const std::string text = testing::DrawnOp(*graph, program, op);
    if (text.empty()) {
      continue;
    }
    EXPECT_EQ(KeptNs(*graph, program, op), 2 * testing::DrawnNs(1, text, before)) << text;
    before = testing::IsDrawnKernel(text) ? text : before;
    ++checked;
  }
  EXPECT_GT(checked, 0);

  const auto edited = [this](const std::string& gpu) {
    WriteText(folder_ / "gpu.toml", "[gpu]\nof = \"" + gpu + "\"\n");
    const Finished replay = RunCommand(
        {PRISM_PROGRAM, "replay", GraphFile(), "--edit", folder_ / "gpu.toml", "--format", "json"});
    EXPECT_THAT(replay.output, HasSubstr("; 0 of measured duration keep it"));
    const nlohmann::json both = nlohmann::json::parse(replay.output);
    return both["iteration_s"]["edited"].get<double>() /
           both["iteration_s"]["baseline"].get<double>();
  };
  EXPECT_EQ(edited("h100-8x"), 1);
  EXPECT_LT(edited("b200-8x"), 0.9);
  EXPECT_GT(edited("a100-80-8x"), 1.1);
}

// What the host takes between calls, without its waits for the GPU, which poll, and without what it
// does once; the replay takes it where --host-time says so.
TEST_F(GpuTimes, come_with_the_host_s_own) {
  constexpr double kPollsMs = 25;
  setenv("FAKE_GPU_POLLS_MS", "25", 1);
  const Finished run =
      Run({"--record-device", "cuda", "--sandbox-ranks", "0", "--host-time", "measured:2",
           "--target-gpus", "2", "--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/training.py", "once"});
  unsetenv("FAKE_GPU_POLLS_MS");
  ASSERT_EQ(run.code, 0) << run.output;
  const Finished replay =
      RunCommand({PRISM_PROGRAM, "replay", GraphFile(), "--costs", "--format", "json"});
  const nlohmann::json host = nlohmann::json::parse(replay.output)["host"];
  std::set<std::string> kinds;
  for (const nlohmann::json& row : host) {
    kinds.insert(row["kind"]);
    const double ops = row["ops"];
    const double each_s = row["recorded_s"].get<double>() / ops;
    EXPECT_GT(each_s, 0) << row;
    EXPECT_LT(each_s, kPollsMs / 1e3 / 25) << row;
    EXPECT_NEAR(row["replay_s"].get<double>() / ops, 2 * each_s, 1e-9) << row;
  }
  EXPECT_THAT(kinds, ::testing::IsSupersetOf({"kernel", "stream_sync"})) << replay.output;
  EXPECT_THAT(RunCommand({PRISM_PROGRAM, "replay", GraphFile(), "--costs"}).output,
              HasSubstr("as measured beside the GPU and as replayed"));
}

TEST_F(GpuTimes, a_role_that_does_not_fit_the_gpu_is_named_and_modelled) {
  setenv("FAKE_GPU_BYTES", "500000000", 1);
  const Finished run = Run({"--record-device", "cuda", "--sandbox-ranks", "none", "--target-gpus",
                            "2", "--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/graphed_steps.py"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("has modelled times: "));
  EXPECT_THAT(Summary()["warnings"].dump(), HasSubstr("role_not_timed"));
  const Finished replay =
      RunCommand({PRISM_PROGRAM, "replay", GraphFile(), "--costs", "--format", "json"});
  EXPECT_THAT(replay.output, Not(HasSubstr("\"recorded\"")));
}

TEST_F(GpuTimes, need_a_gpu) {
  unsetenv("PRISM_TEST_DEVICE");
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  const std::vector<std::string> job = {"--target-gpus", "2", "--model", "gpt3-1.3b", "--tp", "2"};
  std::vector<std::string> without = job;
  without.insert(without.end(), {"--record-device", "cuda"});
  const Finished none = Run(without);
  EXPECT_EQ(none.code, 5);
  EXPECT_THAT(none.output, AllOf(HasSubstr("--record-device cuda: libcuda.so.1 shows no GPU"),
                                 HasSubstr("or use --record-device virtual or auto")));
  without.back() = "auto";
  without.insert(without.end(), {"--sandbox-ranks", "none"});
  const Finished falls_back = Run(without);
  EXPECT_EQ(falls_back.code, 0) << falls_back.output;
  EXPECT_THAT(falls_back.output,
              HasSubstr("--record-device auto: this machine has no GPU; kernels take the model's "
                        "times"));
  EXPECT_THAT(Summary()["warnings"].dump(), HasSubstr("device_fallback"));
  EXPECT_EQ(Run({"--graph", GraphFile(), "--record-device", "cuda"}).code, 2);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace prism
