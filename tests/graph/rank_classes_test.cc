#include "graph/rank_classes.h"

#include <map>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "tests/support/planted_graph.h"

namespace prism::graph {
namespace {

using testing::PlantedGraph;

RankClasses Refine(const Graph& graph, std::vector<uint32_t> colour = {}) {
  colour.resize(graph.ranks.size(), 0);
  return RefineRanks(graph, colour, std::vector<uint32_t>(graph.communicators.size(), 0));
}

// Ranks 0..n-1 in a ring: slot 0 the next, slot 1 the one before.
Graph Ring(uint32_t ranks) {
  PlantedGraph planted(ranks, true);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    planted.Peer(rank, (rank + 1) % ranks).Peer(rank, (rank + ranks - 1) % ranks);
  }
  return planted.Build();
}

// tp pairs {0,1}, {2,3}, ... in slot 0; dp groups of equal parity in slot 1.
Graph Grid(uint32_t ranks) {
  PlantedGraph planted(ranks, true);
  for (uint32_t rank = 0; rank < ranks; rank += 2) {
    planted.Communicator("tp", {rank, rank + 1});
  }
  for (uint32_t parity = 0; parity < 2; ++parity) {
    std::vector<uint32_t> members;
    for (uint32_t rank = parity; rank < ranks; rank += 2) {
      members.push_back(rank);
    }
    planted.Communicator("dp", members);
  }
  return planted.Build();
}

TEST(RankClasses, a_symmetric_layout_is_one_class) {
  const RankClasses classes = Refine(Grid(16));
  EXPECT_EQ(classes.representative, (std::vector<uint32_t>{0}));
  EXPECT_EQ(classes.size, (std::vector<uint32_t>{16}));
  EXPECT_EQ(classes.comm_representative.size(), 2U) << "tp pairs and dp groups";
}

TEST(RankClasses, roles_are_classes_numbered_by_lowest_member) {
  Graph graph = Ring(6);
  graph.roles.push_back(graph.roles[0]);
  graph.ranks.role = {1, 0, 1, 0, 1, 0};
  const RankClasses classes = Refine(graph);
  EXPECT_EQ(classes.class_of, (std::vector<uint32_t>{0, 1, 0, 1, 0, 1}));
}

// Rank 0 differs. Its tp partner 1 and the other members of its dp group (2, 4, 6) are affected;
// the partners of those (3, 5, 7) are reached through them and have rank 1 in their dp group: {0},
// {1}, {2, 4, 6}, {3, 5, 7}.
TEST(RankClasses, a_distinguished_rank_splits_a_grid_into_four) {
  const RankClasses classes = Refine(Grid(8), {1});
  EXPECT_EQ(classes.class_of, (std::vector<uint32_t>{0, 1, 2, 3, 2, 3, 2, 3}));
  EXPECT_EQ(classes.size, (std::vector<uint32_t>{1, 1, 3, 3}));
  // {0,1}; {2,3} and the other tp groups; dp of even ranks; dp of odd ranks.
  EXPECT_EQ(classes.comm_class_of, (std::vector<uint32_t>{0, 1, 1, 1, 2, 3}));
}

// In a directed ring nothing mirrors: every rank is at its own distance.
TEST(RankClasses, a_distinguished_rank_reaches_all_of_a_ring) {
  EXPECT_EQ(Refine(Ring(64), {1}).representative.size(), 64U);
}

// A long chain takes as many rounds as it has classes; the cost of each may only depend on what
// changes.
TEST(RankClasses, a_long_ring_is_split_in_linear_time) {
  EXPECT_EQ(Refine(Ring(100'000), {1}).representative.size(), 100'000U);
}

TEST(RankClasses, a_communicator_colour_splits_its_members) {
  const Graph graph = Grid(8);
  std::vector<uint32_t> colour(graph.communicators.size(), 0);
  colour[0] = 1;  // the pair {0, 1}, for example across nodes
  const RankClasses classes = RefineRanks(graph, std::vector<uint32_t>(8, 0), colour);
  EXPECT_EQ(classes.class_of, (std::vector<uint32_t>{0, 0, 1, 1, 1, 1, 1, 1}));
}

// The ranks' peers hold them in different slots, so different ops meet.
TEST(RankClasses, the_slot_a_peer_sees_a_rank_by_counts) {
  PlantedGraph planted(4, true);
  planted.Peer(0, 1).Peer(0, 2).Peer(1, 0).Peer(1, 3).Peer(2, 3).Peer(2, 0).Peer(3, 2).Peer(3, 1);
  EXPECT_EQ(Refine(planted.Build()).representative.size(), 1U);
  PlantedGraph twisted(4, true);
  twisted.Peer(0, 1).Peer(0, 2).Peer(1, 0).Peer(1, 3).Peer(2, 0).Peer(2, 3).Peer(3, 2).Peer(3, 1);
  EXPECT_GT(Refine(twisted.Build()).representative.size(), 1U);
}

// One of four members is distinguished in one group, three are in the other.
TEST(RankClasses, how_many_members_are_of_a_class_counts) {
  PlantedGraph planted(8, true);
  planted.Communicator("a", {0, 1, 2, 3}).Communicator("b", {4, 5, 6, 7});
  const RankClasses classes = Refine(planted.Build(), {1, 0, 0, 0, 1, 1, 1, 0});
  EXPECT_EQ(classes.class_of, (std::vector<uint32_t>{0, 1, 1, 1, 2, 2, 2, 3}));
}

// Rank 4 is a member of the first pair's communicator but has no slot for it.
TEST(RankClasses, members_that_do_not_use_a_communicator_count) {
  PlantedGraph planted(5);
  planted.Communicator("three", {0, 1, 4}).Communicator("two", {2, 3});
  Graph graph = planted.Build();
  graph.ranks.role = {0, 0, 0, 0, 1};
  graph.ranks.comm_begin.back() = 4;
  graph.ranks.comm_ids.pop_back();
  EXPECT_EQ(Refine(graph).class_of, (std::vector<uint32_t>{0, 0, 1, 1, 2}));
}

Graph RandomGraph(uint32_t ranks) {
  PlantedGraph planted(ranks, true);
  // Every rank in two communicators: random partitions into groups of two.
  for (int family = 0; family < 2; ++family) {
    std::vector<uint32_t> order(ranks);
    for (uint32_t i = 0; i < ranks; ++i) {
      order[i] = i;
    }
    for (uint32_t i = ranks - 1; i > 0; --i) {
      std::swap(order[i], order[*rc::gen::inRange<uint32_t>(0, i + 1)]);
    }
    for (uint32_t i = 0; i + 1 < ranks; i += 2) {
      planted.Communicator("pair",
                           {std::min(order[i], order[i + 1]), std::max(order[i], order[i + 1])});
    }
  }
  return planted.Build();
}

// What one rank sees when its neighbours are identified by class.
std::vector<std::multimap<uint32_t, uint32_t>> View(const Graph& graph,
                                                    const RankClasses& classes,
                                                    uint32_t rank) {
  std::vector<std::multimap<uint32_t, uint32_t>> view;
  for (const uint32_t comm : graph.ranks.comms(Rank(rank))) {
    std::multimap<uint32_t, uint32_t> members;
    for (const uint32_t member : graph.communicators.members_of(CommId(comm))) {
      members.emplace(classes.class_of[member], 0);
    }
    view.push_back(std::move(members));
  }
  return view;
}

RC_GTEST_PROP(RankClasses, refinement_is_a_fixed_point_and_respects_colours, ()) {
  const uint32_t ranks = 2 * *rc::gen::inRange<uint32_t>(1, 20);
  const Graph graph = RandomGraph(ranks);
  std::vector<uint32_t> colour(ranks);
  for (uint32_t& value : colour) {
    value = *rc::gen::weightedElement<uint32_t>({{8, 0}, {1, 1}});
  }
  const RankClasses classes = Refine(graph, colour);
  std::map<uint32_t, uint32_t> first;
  uint32_t next = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto [leader, fresh] = first.try_emplace(classes.class_of[rank], rank);
    if (fresh) {
      RC_ASSERT(classes.class_of[rank] == next++);
      RC_ASSERT(classes.representative[classes.class_of[rank]] == rank);
    }
    RC_ASSERT(colour[rank] == colour[leader->second]);
    RC_ASSERT(View(graph, classes, rank) == View(graph, classes, leader->second));
  }
}

}  // namespace
}  // namespace prism::graph
