#include "launch/plan/framework_style.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/presets.h"
#include "launch/plan/job_time.h"
#include "launch/plan/peak_flops.h"
#include "launch/plan/plan_space.h"
#include "tests/launch/plan/small_search.h"

namespace prism::launch {
namespace {

using ::testing::HasSubstr;

TEST(Framework, has_a_name_of_its_own_and_a_profile) {
  for (const Framework* framework : Frameworks()) {
    EXPECT_EQ(FrameworkNamed(framework->name), framework) << framework->name;
    graph::ClusterSpec cluster = *LoadCluster("h100-8x");
    EXPECT_TRUE(UseFramework(std::string(framework->profile_name), &cluster).ok())
        << framework->name;
  }
  EXPECT_FALSE(FrameworkStyle::Create("jax", "").ok());  // for published rows alone
}

// As in most recipes; the schedule that overlaps transfers with compute needs interleaved stages.
TEST(FrameworkStyle, dispatches_to_experts_by_fused_kernels) {
  graph::JobSpec job;
  const FrameworkStyle style = *FrameworkStyle::Create("megatron-core", "bf16");
  EXPECT_FALSE(style.Of(job).moe_fused_dispatch);
  job.model.moe.experts = 8;
  EXPECT_TRUE(style.Of(job).moe_fused_dispatch);
  EXPECT_FALSE(style.Of(job).moe_overlap);
  job.parallel.pp = job.parallel.vpp = 2;
  EXPECT_TRUE(style.Of(job).moe_overlap);
  EXPECT_THAT(style.Assumptions(job), ::testing::Contains(HasSubstr("DeepEP")));
}

TEST(FrameworkStyle, selects_op_by_op_what_torchtitan_recomputes) {
  graph::JobSpec job;
  job.recompute = graph::Recompute::kSelective;
  const auto told = ::testing::Contains(HasSubstr("the core of attention"));
  EXPECT_THAT(FrameworkStyle::Create("fsdp", "bf16")->Assumptions(job), told);
  EXPECT_THAT(FrameworkStyle::Create("torchtitan", "bf16")->Assumptions(job), ::testing::Not(told));
}

// A stage of torchtitan keeps what it gathered for all its micro-batches.
TEST(FrameworkStyle, has_each_plan_once) {
  SearchProblem problem = SmallProblem("torchtitan");
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("pp=2,dp=8,zero=3")), HasSubstr("by another name"));
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("pp=2,dp=8,zero=2")), "");
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("dp=8,zero=3")), "");
  problem.framework = "fsdp";
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("pp=2,dp=8,zero=3")), "");
}

// Unfused attention under context parallelism, for one, would be a plan that nobody can run.
TEST(FrameworkReach, leaves_out_what_a_framework_does_not_have) {
  SearchProblem problem = SmallProblem("megatron-lm");
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("cp=2,dp=4")), HasSubstr("no context parallelism"));
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("dp=8,zero=3")), HasSubstr("no ZeRO 3"));
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("pp=2,dp=4,vpp=2,zero=1")), "");
  problem.framework = "megatron-deepspeed";
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("pp=2,dp=4,zero=3")), HasSubstr("in a pipeline"));
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("dp=8,zero=3")), "");
  problem.framework = "nanotron";
  EXPECT_THAT(WhyNoPlan(problem, *ParsePlan("pp=2,dp=4,vpp=2")), HasSubstr("does not interleave"));
  problem.framework = "megatron-core";
  EXPECT_EQ(WhyNoPlan(problem, *ParsePlan("pp=2,cp=2,dp=2,vpp=2,zero=3")), "");
}

TEST(LackingFormat, is_told_of_a_gpu_that_has_it_not) {
  const graph::ClusterSpec ampere = *LoadCluster("a100-40-8x");
  const graph::ClusterSpec hopper = *LoadCluster("h100-8x");
  const graph::ClusterSpec blackwell = *LoadCluster("b200-8x");
  using graph::Precision;
  EXPECT_THAT(LackingFormat(ampere, Precision::kFloat8), HasSubstr("no 8-bit products"));
  EXPECT_THAT(LackingFormat(ampere, Precision::kNvFloat4), HasSubstr("no 8-bit products"));
  EXPECT_EQ(LackingFormat(ampere, Precision::kBfloat16), "");
  EXPECT_EQ(LackingFormat(hopper, Precision::kFloat8Block), "");
  EXPECT_THAT(LackingFormat(hopper, Precision::kMxFloat8), HasSubstr("no MX formats"));
  EXPECT_THAT(LackingFormat(hopper, Precision::kNvFloat4), HasSubstr("no 4-bit products"));
  EXPECT_EQ(LackingFormat(blackwell, Precision::kNvFloat4), "");
}

TEST(JobTime, has_what_the_host_does_once_beside_a_graph_of_the_iteration) {
  const graph::ParameterTable parameters = LoadCluster("h100-8x")->parameters;
  const double once_s = parameters.Value("host.iteration_ns") * 1e-9;
  const DurationNs second = 1'000'000'000;
  graph::TrainingStyle style;
  EXPECT_DOUBLE_EQ(SecondsOfIteration(second, style, parameters), 1 + once_s);
  style.host_cost = graph::HostCost::kGraph;
  EXPECT_DOUBLE_EQ(SecondsOfIteration(second, style, parameters), 1);
  EXPECT_DOUBLE_EQ(SecondsOfIteration(0, style, parameters), once_s);
}

}  // namespace
}  // namespace prism::launch
