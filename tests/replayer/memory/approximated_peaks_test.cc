#include "replayer/memory/approximated_peaks.h"

#include <gtest/gtest.h>

namespace prism::replayer {
namespace {

graph::Role RoleOf(int32_t stage, int64_t peak) {
  graph::Role role;
  role.stage = stage;
  role.memory.peak_allocated = peak;
  return role;
}

// Stage 0: ranks 0 (its role), 1 and 2 recorded, 3 not. Stage 1: 4 recorded, 5 not.
graph::Graph ShardedJob() {
  using enum graph::RankSource;
  graph::Graph graph;
  graph.roles = {RoleOf(0, 1000), RoleOf(1, 800), RoleOf(0, 1012), RoleOf(0, 995)};
  graph.ranks.role = {0, 2, 3, 0, 1, 1};
  graph.ranks.source = {kSandbox, kRecorded, kRecorded, kApproximated, kRecorded, kApproximated};
  return graph;
}

TEST(ApproximatedPeaks, the_furthest_recorded_ranks_of_the_stage_are_the_range) {
  const PeakSpread spread = SpreadOfApproximated(ShardedJob(), 0);
  EXPECT_EQ(spread.ranks, 3);
  EXPECT_EQ(spread.above, 12);
  EXPECT_EQ(spread.below, 5);
}

TEST(ApproximatedPeaks, a_stage_with_one_recorded_rank_takes_the_widest_range) {
  const PeakSpread spread = SpreadOfApproximated(ShardedJob(), 1);
  EXPECT_EQ(spread.ranks, 4);
  EXPECT_EQ(spread.above, 12);
  EXPECT_EQ(spread.below, 5);
}

}  // namespace
}  // namespace prism::replayer
