#include "graph/parallel_layout.h"

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

TEST(ParallelLayout, Patterns_of_the_usual_groups_have_their_names) {
  const ParallelLayout layout(Sizes(2, 1, 2, 4));
  const auto name = [&](uint32_t self, std::initializer_list<uint32_t> members) {
    const Result<GroupPattern> pattern = layout.PatternOf(Rank(self), Ranks(members));
    return pattern.ok() ? layout.PatternName(*pattern) : pattern.status().message();
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

TEST(ParallelLayout, A_group_that_is_no_product_is_refused_by_name) {
  const ParallelLayout layout(Sizes(2, 1, 2, 4));
  const Result<GroupPattern> pattern = layout.PatternOf(Rank(0), Ranks({0, 3}));
  ASSERT_FALSE(pattern.ok());
  EXPECT_NE(pattern.status().message().find("{0, 3}"), std::string::npos);
  EXPECT_FALSE(layout.PatternOf(Rank(1), Ranks({0, 2})).ok()) << "self is no member";
}

// The law that stitching rests on: a pattern seen from one member gives the same group back from
// every member, and its translate from any other rank contains that rank.
TEST(ParallelLayout, Pattern_and_members_are_inverse_on_every_rank) {
  const ParallelLayout layout(Sizes(2, 2, 3, 4));
  for (uint32_t self = 0; self < 48; ++self) {
    for (int axes = 0; axes < 16; ++axes) {
      GroupPattern pattern;
      for (size_t axis = 0; axis < kAxisCount; ++axis) {
        const int32_t size = layout.size(static_cast<Axis>(axis));
        for (int32_t i = 0; (axes >> axis & 1) != 0 && i < size; ++i) {
          pattern.coordinates[axis].push_back(i);
        }
      }
      const std::vector<Rank> members = layout.MembersOf(Rank(self), pattern);
      ASSERT_TRUE(std::is_sorted(members.begin(), members.end()));
      for (const Rank member : members) {
        const Result<GroupPattern> seen = layout.PatternOf(member, members);
        ASSERT_TRUE(seen.ok());
        EXPECT_EQ(*seen, pattern);
        EXPECT_EQ(layout.MembersOf(member, *seen), members);
      }
    }
  }
}

TEST(ParallelLayout, Peer_patterns_wrap_around) {
  const ParallelLayout layout(Sizes(2, 1, 2, 4));
  const PeerPattern next = layout.PeerPatternOf(Rank(0), Rank(4));
  EXPECT_EQ(next.offset, (Coordinates{0, 0, 0, 1}));
  EXPECT_EQ(layout.PeerOf(Rank(7), next), Rank(11));
  EXPECT_EQ(layout.PeerOf(Rank(13), next), Rank(1));
  for (uint32_t self = 0; self < 16; ++self) {
    for (uint32_t peer = 0; peer < 16; ++peer) {
      EXPECT_EQ(layout.PeerOf(Rank(self), layout.PeerPatternOf(Rank(self), Rank(peer))),
                Rank(peer));
    }
  }
}

}  // namespace
}  // namespace prism::graph
