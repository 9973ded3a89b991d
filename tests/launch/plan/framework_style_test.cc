// The styles of a search are those from which published rows start.
#include "launch/plan/framework_style.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/presets.h"
#include "launch/plan/peak_flops.h"
#include "launch/plan/plan_space.h"
#include "tests/launch/plan/small_search.h"

namespace prism::launch {
namespace {

using ::testing::HasSubstr;

// Enumerators are numbers from 0, so that a table with as many lines as values has each of them.
TEST(Framework, is_in_the_table_once_and_has_a_profile) {
  std::set<FrameworkFamily> families;
  for (const Framework* framework : Frameworks()) {
    families.insert(framework->family);
    EXPECT_EQ(&FrameworkOf(framework->family), framework);
    EXPECT_EQ(FrameworkNamed(framework->name) == framework, framework->runs_plans);
    graph::ClusterSpec cluster = *LoadCluster("h100-8x");
    EXPECT_TRUE(UseFramework(std::string(framework->name), &cluster).ok()) << framework->name;
  }
  EXPECT_EQ(families.size(), Frameworks().size());
  EXPECT_EQ(static_cast<size_t>(*families.rbegin()) + 1, families.size());
}

TEST(FrameworkStyle, is_that_of_published_rows_for_every_kind_of_job) {
  for (const std::string& name : FrameworkNames()) {
    for (const char* precision : {"bf16", "fp8"}) {
      const FrameworkStyle style = *FrameworkStyle::Create(name, precision);
      for (int kind = 0; kind < 256; ++kind) {
        const auto bit = [&](int index) { return (kind >> index & 1) != 0; };
        graph::JobSpec job;
        job.parallel.tp = bit(0) ? 4 : 1;
        job.sequence_parallel = bit(1);
        job.parallel.vpp = bit(2) ? 3 : 1;
        job.parallel.pp = bit(3) ? 4 : 1;
        job.model.moe.experts = bit(4) ? 8 : 0;
        job.model.latent.kv_rank = bit(5) ? 512 : 0;
        job.zero_stage = kind >> 6;
        EXPECT_EQ(style.Of(job),
                  StyleOfFramework(*FrameworkNamed(name), *PrecisionNamed(precision), job))
            << name << " " << precision << " " << kind;
      }
    }
  }
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

}  // namespace
}  // namespace prism::launch
