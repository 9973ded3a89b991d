#include "graph/rank_slots.h"

#include <gtest/gtest.h>

#include "tests/support/planted_graph.h"

namespace prism::graph {
namespace {

using testing::PlantedGraph;

TEST(RankSlots, a_communicator_is_found_in_the_slot_that_holds_it) {
  PlantedGraph planted(4);
  planted.Communicator("tp", {0, 1}).Communicator("tp", {2, 3}).Communicator("dp", {1, 3});
  const Graph graph = planted.Build();
  EXPECT_EQ(CommSlotOf(graph.ranks, Rank(1), CommId(0)), 0);
  EXPECT_EQ(CommSlotOf(graph.ranks, Rank(1), CommId(2)), 1);
  EXPECT_EQ(CommSlotOf(graph.ranks, Rank(1), CommId(1)), kNoSlot);
}

// Rank 0 has 2, 1; rank 1 has 2, 0; rank 2 has only 1; rank 3 has 1, who does not have it.
TEST(RankSlots, peers_are_found_where_they_hold_the_rank) {
  PlantedGraph planted(4);
  planted.Peer(0, 2).Peer(0, 1).Peer(1, 2).Peer(1, 0).Peer(2, 1).Peer(3, 1);
  EXPECT_EQ(ReversePeerSlots(planted.Build().ranks),
            (std::vector<uint16_t>{kNoSlot, 1, 0, 1, 0, kNoSlot}));
}

TEST(RankSlots, the_first_of_two_slots_of_a_peer_counts) {
  PlantedGraph planted(3);
  planted.Peer(0, 2).Peer(0, 1).Peer(0, 1).Peer(1, 0);
  EXPECT_EQ(ReversePeerSlots(planted.Build().ranks), (std::vector<uint16_t>{kNoSlot, 0, 0, 1}));
}

}  // namespace
}  // namespace prism::graph
