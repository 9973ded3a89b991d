// Nodes of jobs under each policy.
#include "launch/inputs/placement_policy.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace prism::launch {
namespace {

using ::testing::ElementsAre;

TEST(PlacementPolicy, packs_shuffles_and_takes_turns) {
  EXPECT_THAT(NodesOfJobs(PlacementPolicy::kPacked, {2, 3}, 0),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));
  EXPECT_THAT(NodesOfJobs(PlacementPolicy::kFragmented, {2, 3}, 0),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3, 4)));
  EXPECT_THAT(NodesOfJobs(PlacementPolicy::kFragmented, {3}, 0), ElementsAre(ElementsAre(0, 2, 4)));
  const auto random = NodesOfJobs(PlacementPolicy::kRandom, {20, 30}, 7);
  EXPECT_EQ(random, NodesOfJobs(PlacementPolicy::kRandom, {20, 30}, 7));
  EXPECT_NE(random, NodesOfJobs(PlacementPolicy::kRandom, {20, 30}, 8));
  std::vector<uint32_t> all = random[0];
  all.insert(all.end(), random[1].begin(), random[1].end());
  std::ranges::sort(all);
  for (uint32_t node = 0; node < 50; ++node) {
    EXPECT_EQ(all[node], node);
  }
}

}  // namespace
}  // namespace prism::launch
