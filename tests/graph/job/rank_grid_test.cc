#include "graph/job/rank_grid.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace prism::graph {
namespace {

std::vector<Rank> Ranks(std::initializer_list<uint32_t> values) {
  std::vector<Rank> ranks;
  for (const uint32_t value : values) {
    ranks.push_back(Rank(value));
  }
  return ranks;
}

// rank = tp + 2 dp + 4 pp.
RankGrid SmallGrid() {
  return RankGrid({{"tp", 2}, {"dp", 2}, {"pp", 4}});
}

TEST(RankGrid, families_of_the_usual_groups_have_their_names) {
  const RankGrid grid = SmallGrid();
  const auto name = [&](uint32_t self, std::initializer_list<uint32_t> members) {
    const Result<GridGroup> group = grid.GroupOf(Rank(self), Ranks(members));
    return group.ok() ? grid.Name(*group) : group.status().message();
  };
  EXPECT_EQ(name(4, {4, 5}), "tp");
  EXPECT_EQ(name(4, {4, 6}), "dp");
  EXPECT_EQ(name(5, {1, 5, 9, 13}), "pp");
  EXPECT_EQ(name(1, {1, 13}), "embedding");
  EXPECT_EQ(name(4, {4, 5, 6, 7}), "tp-dp");
  EXPECT_EQ(name(0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}), "world");
  EXPECT_EQ(name(6, {2, 6}), "pp[0,1]");
  EXPECT_EQ(name(6, {6}), "self");
}

TEST(RankGrid, a_group_that_is_no_product_is_refused_by_name) {
  const RankGrid grid = SmallGrid();
  const Result<GridGroup> group = grid.GroupOf(Rank(0), Ranks({0, 3}));
  ASSERT_FALSE(group.ok());
  EXPECT_NE(group.status().message().find("{0, 3}"), std::string::npos);
  EXPECT_FALSE(grid.GroupOf(Rank(1), Ranks({0, 2})).ok()) << "self is no member";
}

TEST(RankGrid, experts_split_the_data_parallel_axis) {
  JobSpec job;
  job.parallel.tp = 2;
  job.parallel.dp = 4;
  job.parallel.ep = 2;
  const RankGrid grid = RankGrid::Of(job);
  EXPECT_EQ(grid.ToText(), "tp 2 × cp 1 × ep 2 × dp 2 × pp 1");
  EXPECT_TRUE(grid.GroupOf(Rank(5), Ranks({5, 7})).ok()) << "experts of the second half";
}

// The law that stitching rests on: a family seen from one member gives the same group back from
// every member, and its translate from any other rank contains that rank.
TEST(RankGrid, family_and_members_are_inverse_on_every_rank) {
  const RankGrid grid({{"tp", 2}, {"cp", 2}, {"dp", 3}, {"pp", 4}});
  for (uint32_t self = 0; self < 48; ++self) {
    for (unsigned axes = 0; axes < 16; ++axes) {
      GridGroup group;
      for (size_t axis = 0; axis < 4; ++axis) {
        std::vector<int32_t>& list = group.coordinates.emplace_back();
        for (int32_t i = 0; (axes >> axis & 1U) != 0 && i < grid.axes()[axis].size; ++i) {
          list.push_back(i);
        }
      }
      const std::vector<Rank> members = grid.MembersOf(Rank(self), group);
      ASSERT_TRUE(std::is_sorted(members.begin(), members.end()));
      for (const Rank member : members) {
        const Result<GridGroup> seen = grid.GroupOf(member, members);
        ASSERT_TRUE(seen.ok());
        EXPECT_EQ(*seen, group);
        EXPECT_EQ(grid.MembersOf(member, *seen), members);
      }
    }
  }
}

TEST(RankGrid, coordinates_go_by_name_whatever_the_order_of_axes) {
  const RankGrid grid({{"pp", 4}, {"ep", 2}, {"dp", 3}, {"tp", 2}});
  const ParallelRank at = grid.ParallelRankOf(Rank(3 + 4 * (1 + 2 * (2 + 3 * 1))));
  EXPECT_EQ(at.pp, 3);
  EXPECT_EQ(at.ep, 1);
  EXPECT_EQ(at.dp, 1 + 2 * 2);
  EXPECT_EQ(at.tp, 1);
  EXPECT_EQ(grid.LowestOfStage(3), Rank(3));
  EXPECT_EQ(RankGrid({{"dp", 8}}).LowestOfStage(0), Rank(0));
}

TEST(RankGrid, peers_wrap_around) {
  const RankGrid grid = SmallGrid();
  const GridPeer next = grid.PeerOf(Rank(0), Rank(4));
  EXPECT_EQ(next.steps, (std::vector<GridPeer::Step>{{false, 0}, {false, 0}, {false, 1}}));
  EXPECT_EQ(grid.RankOf(Rank(7), next), Rank(11));
  EXPECT_EQ(grid.RankOf(Rank(13), next), Rank(1));
  for (uint32_t self = 0; self < 16; ++self) {
    for (uint32_t peer = 0; peer < 16; ++peer) {
      EXPECT_EQ(grid.RankOf(Rank(self), grid.PeerOf(Rank(self), Rank(peer))), Rank(peer));
    }
  }
}

TEST(RankGrid, a_place_in_a_group_is_the_same_for_all_members) {
  const RankGrid grid = SmallGrid();
  const std::vector<Rank> members =
      grid.MembersOf(Rank(1), *grid.GroupOf(Rank(1), {Rank(1), Rank(5), Rank(9), Rank(13)}));
  for (const Rank self : members) {
    const GridGroup group = *grid.GroupOf(self, members);
    EXPECT_EQ(grid.RankOf(self, grid.PlaceOf(Rank(9), group)), Rank(9));
    EXPECT_EQ(grid.PlaceOf(Rank(9), group), grid.PlaceOf(Rank(9), *grid.GroupOf(Rank(1), members)));
  }
  // Seen from another group of the same family, it is that group's member at the same place.
  EXPECT_EQ(grid.RankOf(Rank(2), grid.PlaceOf(Rank(9), *grid.GroupOf(Rank(1), members))), Rank(10));
}

}  // namespace
}  // namespace prism::graph
