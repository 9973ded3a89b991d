// The library call returns what the search returns.
#include "launch/plan/plan_library.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "launch/inputs/presets.h"
#include "launch/plan/plan_evaluator.h"

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
  problem.costs = *launch::LoadStated("a100-40-8x", launch::StatedTable::kCosts);
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

TEST(PlanLibrary, refuses_what_prism_search_refuses) {
  const auto refusal = [](auto change) {
    prism_plan_problem problem = SmallProblem();
    change(&problem);
    return PlanLibrary(problem).error();
  };
  using Problem = prism_plan_problem*;
  EXPECT_NE(refusal([](Problem p) { p->global_batch_size = (1 << 20) + 1; }), "");
  EXPECT_NE(refusal([](Problem p) { p->global_batch_size = -1; }), "");
  EXPECT_NE(refusal([](Problem p) { p->seq_len = (1 << 24) + 1; }), "");
  EXPECT_NE(refusal([](Problem p) { p->tokens = -5; }), "");
  EXPECT_NE(refusal([](Problem p) { p->tokens = std::numeric_limits<double>::infinity(); }), "");
  EXPECT_EQ(refusal([](Problem p) { p->global_batch_size = 1 << 20; }), "");
  EXPECT_TRUE(refusal([](Problem p) { p->precision = "fp64"; }).starts_with("precision: 'fp64'"));
  EXPECT_TRUE(refusal([](Problem p) { p->framework = "foo"; }).starts_with("framework: 'foo'"));
}

TEST(PlanLibrary, evaluates_on_one_thread_where_none_is_asked_for) {
  const PlanLibrary library(SmallProblem());
  const std::vector<PlanLibrary::Plan> plans = {{2, 1, 2, 4, 1, 1, 1, 0, 1, 1, 0}};
  std::vector<PlanLibrary::Cost> costs(1);
  EXPECT_EQ(library.Evaluate(plans, costs, 0), 1);
}

}  // namespace
}  // namespace prism
