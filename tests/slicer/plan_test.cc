#include "slicer/plan.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "graph/job/rank_grid.h"

namespace prism::slicer {
namespace {

graph::JobSpec Job(int32_t tp, int32_t dp, int32_t pp, uint64_t seed = 0) {
  graph::JobSpec job;
  job.parallel.tp = tp;
  job.parallel.dp = dp;
  job.parallel.pp = pp;
  job.seed = seed;
  return job;
}

TEST(Plan, one_role_a_stage_with_the_lowest_rank_as_representative) {
  const Result<SlicePlan> plan = MakePlan(Job(8, 64, 16), {});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->roles.size(), 16U);
  EXPECT_EQ(plan->roles[3].name, "stage 3");
  EXPECT_EQ(plan->roles[3].representative, Rank(3 * 8 * 64));
  EXPECT_EQ(plan->role_of.size(), 8192U);
  EXPECT_EQ(plan->role_of[8191], 15U);
  EXPECT_EQ(plan->RecordedRanks().size(), 18U);
  EXPECT_TRUE(std::ranges::is_sorted(plan->RecordedRanks()));
}

TEST(Plan, spot_checks_differ_on_every_axis_and_come_from_far_stages) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const graph::JobSpec job = Job(8, 64, 16, seed);
    const Result<SlicePlan> plan = MakePlan(job, {.spot_checks = 4});
    ASSERT_TRUE(plan.ok());
    ASSERT_EQ(plan->spot_checks.size(), 4U);
    const graph::RankGrid grid = graph::RankGrid::Of(job);
    std::set<int32_t> stages;
    for (const Rank rank : plan->spot_checks) {
      const graph::ParallelRank at = grid.ParallelRankOf(rank);
      EXPECT_NE(at.tp, 0);
      EXPECT_NE(at.dp, 0);
      stages.insert(at.pp % 4);
    }
    EXPECT_EQ(stages.size(), 1U) << "four checks on 16 stages are four stages apart";
  }
}

TEST(Plan, the_seed_alone_draws_the_spot_checks) {
  const auto draw = [](uint64_t seed) { return MakePlan(Job(8, 64, 16, seed), {})->spot_checks; };
  EXPECT_EQ(draw(1), draw(1));
  std::set<std::vector<Rank>> drawn;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    drawn.insert(draw(seed));
  }
  EXPECT_GT(drawn.size(), 5U);
}

TEST(Plan, fewer_spot_checks_where_the_job_has_no_other_ranks) {
  EXPECT_TRUE(MakePlan(Job(1, 1, 4), {})->spot_checks.empty());
  EXPECT_EQ(MakePlan(Job(1, 2, 1), {.spot_checks = 5})->spot_checks, (std::vector<Rank>{Rank(1)}));
  const std::vector<Rank> all = MakePlan(Job(2, 1, 4), {.spot_checks = 9})->spot_checks;
  EXPECT_EQ(all, (std::vector<Rank>{Rank(1), Rank(3), Rank(5), Rank(7)}));
}

TEST(Plan, what_is_impossible_is_refused_with_a_way_out) {
  graph::JobSpec experts = Job(1, 8, 1);
  experts.parallel.ep = 4;
  EXPECT_TRUE(MakePlan(experts, {}).ok());
  experts.parallel.ep = 3;
  EXPECT_EQ(MakePlan(experts, {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MakePlan(Job(1, 1, 8), {.max_roles = 4}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace prism::slicer
