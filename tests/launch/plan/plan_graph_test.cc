// The graph of a plan: its replay takes the time that the search says, and its worst rank needs the
// same memory.
#include "launch/plan/plan_graph.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/file.h"
#include "replayer/engine/replay_result.h"
#include "replayer/memory/worst_rank.h"
#include "replayer/replay.h"
#include "tests/launch/plan/small_search.h"

namespace prism::launch {
namespace {

using graph::Offload;
using ::testing::Contains;
using ::testing::HasSubstr;

std::vector<Plan> DrawAll(const PlanEvaluator& evaluator) {
  PlanChoices choices;
  choices.gpus = {16};
  choices.cp = {1, 2};
  std::vector<Plan> plans = DrawPlans(evaluator, choices, 12, Rng(3, "plan graph test"));
  choices.offload = {Offload::kOptimizer, Offload::kActivations, Offload::kAll};
  for (const Plan& plan : DrawPlans(evaluator, choices, 4, Rng(4, "offloaded"))) {
    plans.push_back(plan);
  }
  return plans;
}

TEST(PlanGraph, takes_the_time_and_memory_that_the_search_gives) {
  constexpr double kNs = 1e9;
  int even = 0;
  int offloaded = 0;
  for (const char* framework : {"megatron-core", "torchtitan", "nanotron"}) {
    const PlanEvaluator evaluator = *PlanEvaluator::Create(SmallProblem(framework), "");
    for (const Plan& plan : DrawAll(evaluator)) {
      const Result<JobTime> time = evaluator.Time(plan);
      const Result<PlanMemory> memory = evaluator.Memory(plan);
      if (!time.ok() || !memory.ok()) {
        continue;  // nanotron offloads nothing
      }
      SCOPED_TRACE(std::string(framework) + ": " + DescribePlan(plan));
      const Result<graph::Graph> graph = GraphOf(evaluator, plan);
      ASSERT_TRUE(graph.ok()) << graph.status().message();
      const Result<replayer::ReplayResult> replay = replayer::Replay(*graph, {});
      ASSERT_TRUE(replay.ok()) << replay.status().message();
      const int64_t expected = std::llround(kNs * time->seconds);
      if (time->uneven) {
        EXPECT_LE(replay->steady_iteration_ns(), expected);
      } else {
        EXPECT_EQ(replay->steady_iteration_ns(), expected);
      }
      even += time->uneven ? 0 : 1;
      offloaded += plan.offload == Offload::kNone ? 0 : 1;
      const graph::MemoryProfile& worst = graph->role_of(replayer::WorstRank(*graph)).memory;
      EXPECT_EQ(worst.device_bytes(), memory->device_bytes);
      EXPECT_EQ(worst.peak_allocated, memory->allocated_bytes);
    }
  }
  EXPECT_GT(even, 30);
  EXPECT_GT(offloaded, 5);
}

TEST(PlanGraph, tells_job_and_assumptions_and_survives_a_file) {
  const PlanEvaluator evaluator = *PlanEvaluator::Create(SmallProblem("nanotron"), "");
  const Plan plan = *ParsePlan("tp=2,pp=4,dp=2,sp=on");
  const graph::Graph graph = *GraphOf(evaluator, plan);
  EXPECT_EQ(graph.job.name, "gpt3-1.3b");
  EXPECT_EQ(graph.job.parallel, plan.parallel);
  EXPECT_THAT(graph.assumptions, Contains(HasSubstr("no rank was recorded")));
  EXPECT_THAT(graph.assumptions, Contains(HasSubstr("host.iteration_ns")));
  EXPECT_EQ(*graph::DecodeGraph(graph::EncodeGraph(graph), "memory"), graph);
  EXPECT_EQ(graph::EncodeGraph(*GraphOf(evaluator, plan)), graph::EncodeGraph(graph));
}

}  // namespace
}  // namespace prism::launch
