// What is told of a job before it runs, against the run: parameters, gradients and optimizer state
// to the byte, the allocator's peak within a percent, with shards within five; and what --dry-run
// forecasts, memory of the device within a tenth, the iteration time to the nanosecond.
#include <initializer_list>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graph/base/rng.h"
#include "graph/file.h"
#include "replayer/memory/stage_memory.h"
#include "tests/support/job_run.h"

namespace prism {
namespace {

using Classes = std::map<std::string, int64_t>;

constexpr double kWhole = 0.01;
constexpr double kSharded = 0.05;
constexpr double kOnDevice = 0.1;

Classes ByName(const std::vector<graph::MemoryClass>& parts) {
  Classes classes;
  for (const graph::MemoryClass& part : parts) {
    classes[part.name] = part.bytes;
  }
  return classes;
}

void CompareForecast(const std::vector<std::string>& options, const std::string& summary) {
  std::vector<std::string> command = {PRISM_EMULATE, "--dry-run", "--format", "json"};
  command.insert(command.end(), options.begin(), options.end());
  const Finished plan = RunCommand(command);
  ASSERT_EQ(plan.code, 0) << plan.output;
  const auto forecast = nlohmann::json::parse(plan.output)["forecast"];
  const auto run = nlohmann::json::parse(summary);
  EXPECT_EQ(forecast["iteration_time_s"], run["iteration_time_s"]);
  const double device = run["peak_memory"]["device_bytes"];
  EXPECT_NEAR(forecast["peak_memory"]["device_bytes"], device, kOnDevice * device);
}

// `within`: share of the peak that the prediction may be off by.
void CompareRun(const std::vector<std::string>& options, double within) {
  const ScratchFolder folder;
  std::vector<std::string> command = {PRISM_EMULATE, "--sandbox-ranks", "none",
                                      "--quiet",     "--out",           folder / "run"};
  command.insert(command.end(), options.begin(), options.end());
  const Finished run = RunCommand(command);
  ASSERT_EQ(run.code, 0) << run.output;
  const Result<graph::Graph> graph = graph::ReadGraph(folder / "run/graph.prism");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (const graph::Role& role : graph->roles) {
    SCOPED_TRACE(role.name);
    const Result<replayer::StageMemory> account =
        replayer::PredictStageMemory(graph->job, graph::TrainingStyle{}, role.stage);
    ASSERT_TRUE(account.ok()) << account.status().message();
    Classes ours = ByName(account->at_peak);
    Classes recorded = ByName(role.memory.at_peak);
    for (const char* name : {"parameters", "gradients", "optimizer"}) {
      EXPECT_EQ(ours[name], recorded[name]) << name;
    }
    const auto peak = static_cast<double>(role.memory.peak_allocated);
    EXPECT_NEAR(static_cast<double>(account->peak_allocated), peak, within * peak);
  }
  CompareForecast(options, ReadText(folder / "run/summary.json"));
}

TEST(Forecast, has_the_states_of_recorded_ranks_to_the_byte) {
  CompareRun({"--target-gpus", "16", "--model", "gpt3-1.3b", "--tp", "2", "--pp", "2",
              "--global-batch-size", "32"},
             kWhole);
  CompareRun({"--target-gpus", "64", "--model", "llama3-8b", "--tp", "4", "--pp", "2",
              "--global-batch-size", "64"},
             kWhole);
}

TEST(Forecast, has_the_states_of_recorded_experts_to_the_byte) {
  CompareRun({"--target-gpus", "64", "--model", "mixtral-8x7b", "--tp", "2", "--pp", "4", "--ep",
              "4", "--global-batch-size", "32"},
             kWhole);
}

TEST(Forecast, has_the_states_of_recorded_sharded_gradients_to_the_byte) {
  CompareRun({"--target-gpus", "64", "--model", "llama3-8b", "--tp", "4", "--pp", "2", "--zero",
              "2", "--global-batch-size", "64"},
             kSharded);
  CompareRun({"--target-gpus", "16", "--model", "gpt3-1.3b", "--tp", "1", "--pp", "2", "--zero",
              "2", "--global-batch-size", "32"},
             kSharded);
}

TEST(Forecast, has_the_states_of_recorded_sharded_parameters_to_the_byte) {
  CompareRun({"--target-gpus", "64", "--model", "llama3-8b", "--tp", "1", "--pp", "1", "--zero",
              "3", "--global-batch-size", "128", "--recompute", "full"},
             kSharded);
  CompareRun({"--target-gpus", "32", "--model", "gpt3-1.3b", "--tp", "2", "--pp", "1", "--zero",
              "3", "--global-batch-size", "32"},
             kSharded);
  CompareRun({"--target-gpus", "64", "--model", "llama3-8b", "--tp", "4", "--pp", "2", "--zero",
              "3", "--global-batch-size", "64", "--recompute", "full"},
             kSharded);
}

// --dry-run, the run and prism search have one answer each to a drawn job, or say why they differ:
// the run has the time of the forecast (above), which says what the search says of the plan.
TEST(Forecast, names_the_answer_of_the_search_and_why_it_differs) {
  Rng rng(7, "one answer");
  for (int i = 0; i < 4; ++i) {
    const auto one_of = [&](std::initializer_list<const char*> words) {
      return std::string(words.begin()[rng.UniformInt(0, std::ssize(words) - 1)]);
    };
    const std::string tp = one_of({"1", "2", "4"});
    const std::string pp = one_of({"1", "2", "4"});
    const std::string dp = one_of({"2", "4"});
    const std::string zero = one_of({"0", "1"});
    const std::string gpus = std::to_string(std::stoi(tp) * std::stoi(pp) * std::stoi(dp));
    const std::vector<std::string> same = {
        "--model", one_of({"gpt3-1.3b", "llama3-8b"}), "--global-batch-size", "32", "--format",
        "json"};
    std::vector<std::string> forecast = {
        PRISM_EMULATE, "--dry-run", "--target-gpus",      gpus, "--tp",   tp,
        "--pp",        pp,          "--micro-batch-size", "1",  "--zero", zero};
    std::vector<std::string> search = {PRISM_PROGRAM,
                                       "search",
                                       "--framework",
                                       "megatron-core",
                                       "--gpus",
                                       gpus,
                                       "--top",
                                       "1",
                                       "--plan",
                                       "tp=" + tp + ",pp=" + pp + ",dp=" + dp +
                                           ",mb=1,zero=" + zero + (tp == "1" ? "" : ",sp=on")};
    forecast.insert(forecast.end(), same.begin(), same.end());
    search.insert(search.end(), same.begin(), same.end());
    const Finished told = RunCommand(forecast);
    const Finished searched = RunCommand(search);
    ASSERT_EQ(told.code, 0) << told.output;
    ASSERT_EQ(searched.code, 0) << searched.output;
    const auto answer = nlohmann::json::parse(told.output)["forecast"];
    const auto plan = nlohmann::json::parse(searched.output)["given"][0];
    EXPECT_EQ(answer["search"]["iteration_time_s"], plan["iteration_time_s"]) << search[9];
    EXPECT_TRUE(answer["iteration_time_s"] == plan["iteration_time_s"] ||
                !answer["search"]["differences"].empty());
  }
}

}  // namespace
}  // namespace prism
