// The library call gives what the search gives.
#include "launch/library/plan_library.h"

#include <vector>

#include <gtest/gtest.h>

#include "launch/options/presets.h"
#include "launch/search/plan_evaluator.h"

namespace prism {
namespace {

prism_plan_problem SmallProblem() {
  prism_plan_problem problem = {};
  problem.model = "gpt3-1.3b";
  problem.cluster = "a100-40-8x";
  problem.global_batch_size = 64;
  return problem;
}

TEST(PlanLibrary, gives_what_the_search_gives) {
  const PlanLibrary library(SmallProblem());
  ASSERT_TRUE(library.ok()) << library.error();
  const std::vector<PlanLibrary::Plan> plans = {
      {2, 1, 2, 4, 1, 1, 1, 0, 1, 1, 0}, {1, 1, 1, 1, 1, 1, 64, 0, 0, 0, 0},
      {3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0},
      {2, 1, 2, 4, 1, 1, 1, 0, 1, 1, 3}, {2, 1, 2, 4, 1, 1, 1, 0, 1, 1, 4}};
  std::vector<PlanLibrary::Cost> costs(plans.size());
  EXPECT_EQ(library.Evaluate(plans, costs, 2), 2);
  EXPECT_EQ(costs[0].status, PRISM_PLAN_OK);
  EXPECT_EQ(costs[1].status, PRISM_PLAN_TOO_LARGE);
  EXPECT_LT(costs[1].free_bytes, 0);
  EXPECT_EQ(costs[2].status, PRISM_PLAN_IMPOSSIBLE);
  EXPECT_EQ(costs[3].status, PRISM_PLAN_IMPOSSIBLE);
  EXPECT_EQ(costs[5].status, PRISM_PLAN_IMPOSSIBLE);

  launch::SearchProblem problem;
  problem.model = launch::LoadModel("gpt3-1.3b")->model;
  problem.cluster = *launch::LoadCluster("a100-40-8x");
  problem.costs = *launch::LoadSiteCosts("a100-40-8x");
  problem.framework = "megatron-core";
  problem.global_batch_size = 64;
  problem.seq_len = problem.model.seq_len;
  problem.tokens = 300e9;
  const auto evaluator = launch::PlanEvaluator::Create(problem, "");
  const launch::Plan plan = *launch::ParsePlan("tp=2,pp=2,dp=4,zero=1,sp=on");
  EXPECT_EQ(costs[0].iteration_s, evaluator->Time(plan)->seconds);
  EXPECT_EQ(costs[0].device_bytes, evaluator->Memory(plan)->device_bytes);
  EXPECT_EQ(costs[0].host_bytes, 0);
  const launch::Plan offloaded = *launch::ParsePlan("tp=2,pp=2,dp=4,zero=1,sp=on,offload=all");
  EXPECT_EQ(costs[4].iteration_s, evaluator->Time(offloaded)->seconds);
  EXPECT_EQ(costs[4].host_bytes, evaluator->Memory(offloaded)->host_bytes);
  EXPECT_GT(costs[4].host_bytes, 0);
}

TEST(PlanLibrary, says_why_a_problem_cannot_be_read) {
  prism_plan_problem problem = SmallProblem();
  problem.model = "gpt3-none";
  const PlanLibrary library(problem);
  EXPECT_FALSE(library.ok());
  EXPECT_NE(library.error().find("gpt3-none"), std::string::npos) << library.error();
}

}  // namespace
}  // namespace prism
