// What a program does beside its steady iteration: odd iterations, and programs that have none.
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/programs/user_program.h"

namespace prism {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Every kind is recorded on all recorded ranks, matched and timed; the steady iteration stays what
// it is without them.
TEST_F(UserProgram, odd_iterations_are_timed_and_count_in_the_mean) {
  const auto summary_of = [&](const std::string& how, const std::vector<std::string>& more) {
    std::vector<std::string> command = {PRISM_EMULATE, "--target-gpus", "4",
                                        "--force",     "--out",         folder_ / "out"};
    command.insert(command.end(), more.begin(), more.end());
    command.insert(command.end(), {"--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/odd_steps.py", how});
    const Finished run = RunCommand(command);
    EXPECT_EQ(run.code, 0) << run.output;
    return nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  };
  const auto plain = summary_of("plain", {});
  EXPECT_TRUE(plain["odd_iterations"].empty());
  EXPECT_EQ(plain["mean_iteration_time_s"], plain["iteration_time_s"]);
  const auto odd = summary_of("odd", {"--strict"});
  EXPECT_EQ(odd["iteration_time_s"], plain["iteration_time_s"]);
  const double steady = odd["iteration_time_s"].get<double>();
  std::map<std::string, nlohmann::json> kinds;
  for (const auto& kind : odd["odd_iterations"]) {
    kinds[kind["kind"].get<std::string>()] = kind;
    EXPECT_GT(kind["seconds"].get<double>(), steady) << kind;
  }
  EXPECT_EQ(kinds["checkpoint"]["every"], 10);
  EXPECT_EQ(kinds["evaluation"]["every"], 7);
  EXPECT_EQ(kinds.count("logging"), 1U);
  EXPECT_GT(odd["mean_iteration_time_s"].get<double>(), steady);
}

// What a cluster states of its storage, in round numbers.
std::string StorageCluster() {
  const auto number = [](const std::string& key, const std::string& value,
                         const std::string& unit) {
    return key + " = { value = " + value + ", unit = \"" + unit +
           "\", source = \"a test\", mark = \"assumed\" }\n";
  };
  return "name = \"stored\"\nsource = \"a test\"\ngpus_per_node = 8\n"
         "profiles = [\"nccl/2.30\", \"spread/published\", \"frameworks/eager\", "
         "\"networks/dgx-h100\", \"gpus/h100-80\"]\n[storage]\n" +
         number("read_bytes_per_s", "1e9", "byte/s") +
         number("write_bytes_per_s", "1e8", "byte/s") + number("latency_ns", "2e6", "ns");
}

TEST_F(UserProgram, files_cost_what_the_storage_of_the_cluster_gives) {
  WriteText(folder_ / "stored.toml", StorageCluster());
  const auto summary_of = [&](const std::string& cluster, std::vector<std::string> how) {
    std::vector<std::string> command = {PRISM_EMULATE,
                                        "--target-gpus",
                                        "1",
                                        "--force",
                                        "--cluster",
                                        cluster,
                                        "--out",
                                        folder_ / "out",
                                        "--",
                                        PRISM_PYTHON,
                                        PRISM_PROGRAM_DIR "/stored_files.py"};
    command.insert(command.end(), how.begin(), how.end());
    const Finished run = RunCommand(command);
    EXPECT_EQ(run.code, 0) << run.output;
    return nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  };
  const std::string stored = folder_ / "stored.toml";
  const auto free = summary_of("h100-8x", {"read", "save"});
  const double step = free["iteration_time_s"].get<double>();
  EXPECT_THAT(free["assumptions"].dump(), HasSubstr("bytes that recorded ranks wrote to files"));
  const auto costs = summary_of(stored, {"read", "save"});
  EXPECT_NEAR(costs["iteration_time_s"].get<double>() - step, 1e-3, 1e-5);
  EXPECT_THAT(costs["assumptions"].dump(), Not(HasSubstr("recorded ranks wrote to files")));
  EXPECT_THAT(costs["assumptions"].dump(), HasSubstr("storage.write_bytes_per_s = 1"));
  const auto saved = [](const nlohmann::json& summary) {
    const auto& odd = summary["odd_iterations"];
    return odd.empty() ? -1 : odd[0]["seconds"].get<double>();
  };
  // Weights of 4 × (512 × 512 + 512) × 4 bytes and their names, 4 MB beside them, two latencies.
  const double bytes = 4.0 * (512 * 512 + 512) * 4 + 4e6;
  EXPECT_NEAR(saved(costs) - saved(free) - 1e-3, bytes / 1e8 + 4e-3, 3e-4);
  // Written out once, whether by fsync or close; what has been read is in the page cache.
  const auto again = summary_of(stored, {"read", "again", "save", "sync"});
  EXPECT_EQ(again["iteration_time_s"], costs["iteration_time_s"]);
  EXPECT_NEAR(saved(again), saved(costs), 1e-6);
}

// An all_reduce of 1 MiB in a ring of four and a barrier: 8 messages, 1.5 times the bytes.
TEST_F(UserProgram, calls_of_cpu_groups_take_their_messages_time) {
  const auto summary_of = [&](const std::vector<std::string>& how) {
    std::vector<std::string> command = {
        PRISM_EMULATE, "--target-gpus", "4",  "--force",    "--no-check",
        "--out",       folder_ / "out", "--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/gloo_steps.py"};
    command.insert(command.end(), how.begin(), how.end());
    const Finished run = RunCommand(command);
    EXPECT_EQ(run.code, 0) << run.output;
    return nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  };
  const auto seconds = [](const nlohmann::json& summary) {
    return summary["iteration_time_s"].get<double>();
  };
  const double by_formula = 8 * 30e-6 + 1.5 * (1 << 20) / 2.5e9;
  const auto alone = summary_of({"none"});
  EXPECT_THAT(alone["warnings"].dump(), HasSubstr("independent jobs"));
  const auto by_cpu = summary_of({"gloo"});
  EXPECT_NEAR(seconds(by_cpu) - seconds(alone), by_formula, 1e-6);
  EXPECT_THAT(by_cpu["warnings"].dump(),
              AllOf(HasSubstr("only_cpu_groups"), Not(HasSubstr("independent jobs"))));
  EXPECT_THAT(by_cpu["assumptions"].dump(), HasSubstr("calls of CPU groups (gloo)"));
  const auto both = summary_of({"nccl", "gloo"});
  EXPECT_GT(seconds(both), seconds(by_cpu));
  EXPECT_THAT(both["warnings"].dump(), Not(HasSubstr("only_cpu_groups")));
}

// Its own output shows the time of the target, too.
TEST_F(UserProgram, without_iterations_is_timed_once_and_by_phases) {
  const auto run = [&](const std::string& how) {
    return RunCommand({PRISM_EMULATE, "--target-gpus", "16", "--force", "--out", folder_ / "out",
                       "--", PRISM_PYTHON, PRISM_PROGRAM_DIR "/no_training.py", how});
  };
  const Finished even = run("even");
  ASSERT_EQ(even.code, 0) << even.output;
  EXPECT_THAT(even.output, HasSubstr("the program has no iterations"));
  const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  std::vector<std::string> names;
  double sum = 0;
  std::map<std::string, double> seconds;
  for (const auto& phase : summary["phases"]) {
    names.push_back(phase["name"].get<std::string>());
    seconds[names.back()] = phase["seconds"].get<double>();
    sum += seconds[names.back()];
  }
  EXPECT_THAT(names, ElementsAre("start", "reduce", "between", "pause", "end"));
  EXPECT_EQ(summary["phases"][1]["count"], 3);
  EXPECT_NEAR(seconds["pause"], 2, 1e-3);
  EXPECT_NEAR(sum, summary["iteration_time_s"].get<double>(), 1e-6);
  const std::string log = Log();
  const size_t printed = log.find("reduced in ");
  ASSERT_NE(printed, std::string::npos) << log;
  EXPECT_NEAR(std::stod(log.substr(printed + 11)), seconds["reduce"] + seconds["between"], 1e-4);
  const Finished uneven = run("uneven");
  EXPECT_EQ(uneven.code, 1) << uneven.output;
  EXPECT_THAT(uneven.output, AllOf(HasSubstr("2,097,152 float32"), HasSubstr("1,048,576 float32"),
                                   HasSubstr("no_training.py")));
}

// Of a model that is made on the CPU, a part is drawn, and all else is as it would be.
TEST_F(UserProgram, draws_a_part_of_a_large_model_on_the_cpu) {
  const Finished run =
      RunCommand({PRISM_EMULATE, "--target-gpus", "2", "--force", "--out", folder_ / "out", "--",
                  PRISM_PYTHON, PRISM_PROGRAM_DIR "/large_fills.py"});
  ASSERT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(Log(), HasSubstr("filled"));
  const auto summary = nlohmann::json::parse(ReadText(folder_ / "out/summary.json"));
  int64_t fills = 0;
  for (const auto& warning : summary["warnings"]) {
    fills += warning["code"] == "large_fills_repeated" ? warning["count"].get<int64_t>() : 0;
  }
  EXPECT_EQ(fills, 2 * 8);  // by both ranks
}

}  // namespace
}  // namespace prism
