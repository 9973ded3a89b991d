#include "graph/parallel_layout.h"

#include <gtest/gtest.h>

namespace prism::graph {
namespace {

ParallelSizes Sizes(int32_t tp, int32_t cp, int32_t dp, int32_t pp) {
  ParallelSizes sizes;
  sizes.tp = tp;
  sizes.cp = cp;
  sizes.dp = dp;
  sizes.pp = pp;
  return sizes;
}

// tp 2, dp 2, pp 4: rank = tp + 2 dp + 4 pp.
TEST(ParallelLayout, Tensor_is_fastest_and_pipeline_slowest) {
  const ParallelLayout layout(Sizes(2, 1, 2, 4));
  EXPECT_EQ(layout.CoordinatesOf(Rank(0)), (Coordinates{0, 0, 0, 0}));
  EXPECT_EQ(layout.CoordinatesOf(Rank(7)), (Coordinates{1, 0, 1, 1}));
  EXPECT_EQ(layout.RankAt({1, 0, 0, 3}), Rank(13));
}

}  // namespace
}  // namespace prism::graph
