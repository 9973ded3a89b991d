// One job has one time: --dry-run and prism search say the same of a plan, or --dry-run names all
// that sets them apart. Jobs are drawn by a seed.
#include "launch/emulate/run/forecast.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "graph/base/time.h"
#include "launch/emulate/run/run_plan.h"
#include "launch/inputs/options.h"
#include "launch/inputs/presets.h"
#include "launch/plan/plan_evaluator.h"
#include "replayer/stages/stage_replay.h"
#include "slicer/synthesize/synthesize.h"

namespace prism::launch {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

std::string OneOf(const std::vector<std::string>& values, Rng* rng) {
  return values[static_cast<size_t>(rng->UniformInt(0, static_cast<int64_t>(values.size()) - 1))];
}

std::vector<std::string> DrawJob(Rng* rng) {
  return {"--target-gpus",
          "32",
          "--model",
          OneOf({"gpt3-1.3b", "llama3-8b", "mixtral-8x7b"}, rng),
          "--cluster",
          OneOf({"a100-80-8x", "h100-8x", "b200-8x"}, rng),
          "--tp",
          OneOf({"1", "2", "4"}, rng),
          "--pp",
          OneOf({"1", "2"}, rng),
          "--ep",
          "1",
          "--micro-batch-size",
          OneOf({"1", "2"}, rng),
          "--global-batch-size",
          OneOf({"64", "128"}, rng),
          "--recompute",
          OneOf({"none", "selective", "full"}, rng),
          "--zero",
          OneOf({"0", "1"}, rng)};
}

Plan PlanOf(const graph::JobSpec& job) {
  return WithoutIdleZero(
      {job.parallel, job.micro_batch_size, job.recompute, job.zero_stage, job.sequence_parallel});
}

// The question to prism search, from its own reading of the same presets.
Result<PlanEvaluator> Search(const RunContext& context) {
  SearchProblem problem;
  problem.model = LoadModel(context.options.model)->model;
  problem.cluster = *LoadCluster(context.options.cluster);
  problem.framework = "megatron-core";
  problem.global_batch_size = context.job.global_batch_size;
  problem.seq_len = context.job.seq_len;
  return PlanEvaluator::Create(problem, "");
}

double TimeOfBuiltIn(const graph::JobSpec& job, const graph::ClusterSpec& cluster) {
  const auto program = slicer::Synthesize(job, graph::TrainingStyle(), slicer::Markers::kNone);
  auto evaluator = replayer::StageEvaluator::Create(*program);
  return SecondsFromNs(evaluator->Evaluate(cluster, {})->iteration_ns);
}

TEST(Forecast, says_what_search_says_of_the_same_plan_and_why_that_differs) {
  Rng rng(11, "forecast and search");
  for (int i = 0; i < 20; ++i) {
    const std::vector<std::string> words = DrawJob(&rng);
    SCOPED_TRACE(::testing::PrintToString(words));
    const Result<CommandLine> line = ParseCommandLine(words);
    ASSERT_TRUE(line.ok()) << line.status().message();
    const Result<RunContext> context = PlanRun(line->options);
    ASSERT_TRUE(context.ok()) << context.status().message();
    const std::optional<Forecast> forecast = ForecastOf(*context);
    ASSERT_TRUE(forecast && forecast->iteration_time_s && forecast->search);
    const Result<PlanEvaluator> search = Search(*context);
    ASSERT_TRUE(search.ok()) << search.status().message();
    const Plan plan = PlanOf(context->job);
    const Result<JobTime> time = search->Time(plan);
    ASSERT_TRUE(time.ok()) << time.status().message();
    EXPECT_EQ(forecast->search->iteration_time_s, time->seconds);
    if (time->seconds != *forecast->iteration_time_s) {
      EXPECT_THAT(forecast->search->differences, Not(IsEmpty()));
    }
    // Without style, parameters and time once an iteration, which it names, nothing differs.
    EXPECT_EQ(TimeOfBuiltIn(search->Describe(plan).spec, context->cluster),
              *forecast->iteration_time_s);
  }
}

TEST(Forecast, names_kernels_host_costs_and_time_once_an_iteration) {
  const Result<CommandLine> line =
      ParseCommandLine({"--target-gpus", "32", "--model", "llama3-8b", "--cluster", "h100-8x"});
  const std::optional<Forecast> forecast = ForecastOf(*PlanRun(line->options));
  ASSERT_TRUE(forecast && forecast->search);
  for (const char* difference : {"kernels of the built-in program", "fused norm",
                                 "parameters host.*", "65.7 ms of the host once an iteration"}) {
    EXPECT_THAT(forecast->search->differences, Contains(difference));
  }
}

}  // namespace
}  // namespace prism::launch
