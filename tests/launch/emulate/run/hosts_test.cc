// Which workers share a host, and which ranks go where.
#include "launch/emulate/run/hosts.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/planted_graph.h"

namespace prism::launch {
namespace {

using ::testing::ElementsAre;

Hosts TwoHosts() {
  return GroupWorkers({{"a", "a 1"}, {"b", "b 1"}, {"a", "a 1"}, {"b", "b 1"}});
}

TEST(Hosts, workers_that_share_memory_are_on_one) {
  const Hosts hosts = TwoHosts();
  EXPECT_THAT(hosts.names, ElementsAre("a", "b"));
  EXPECT_THAT(hosts.leaders, ElementsAre(0, 1));
  EXPECT_THAT(hosts.of_worker, ElementsAre(0, 1, 0, 1));
  EXPECT_TRUE(hosts.several());
  EXPECT_TRUE(GroupWorkers({{"a", "a 1"}, {"a", "a 2"}}).several()) << "two containers";
  EXPECT_FALSE(GroupWorkers({ThisHost(), ThisHost()}).several());
}

TEST(Hosts, so_many_workers_of_each_take_ranks) {
  EXPECT_THAT(WorkersForRanks(TwoHosts(), 1), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THAT(WorkersForRanks(TwoHosts(), 5), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  const Hosts uneven = GroupWorkers({{"a", "a"}, {"a", "a"}, {"a", "a"}, {"b", "b"}});
  EXPECT_THAT(WorkersForRanks(uneven, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(3)));
}

TEST(Hosts, ranks_are_counted_on_each) {
  EXPECT_THAT(PlacesOnHosts({0, 2, 1, 0, 3}, TwoHosts()), ElementsAre(0, 1, 0, 2, 1));
}

// Ranks 0 and 2 exchange more than 0 and 1, as 1 and 3 do.
graph::Graph CrossedPairs() {
  testing::PlantedGraph planted(4);
  planted.Communicator("all", {0, 1, 2, 3});
  planted.Communicator("pair", {0, 2}).Communicator("pair", {1, 3});
  for (uint32_t rank = 0; rank < 4; ++rank) {
    planted.Collective(rank, 0, 64).Collective(rank, 1, 1000);
  }
  graph::Graph graph = planted.Build();
  graph.sandbox_ranks = {Rank(0), Rank(1), Rank(2), Rank(3)};
  return graph;
}

TEST(Hosts, ranks_that_exchange_most_are_on_one) {
  const graph::Graph graph = CrossedPairs();
  const Hosts hosts = TwoHosts();
  EXPECT_THAT(PlaceRanks(graph, hosts, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(PlacesText(graph.sandbox_ranks, PlaceRanks(graph, hosts, 4), hosts),
            "ranks 0, 2 on a; ranks 1, 3 on b");
  // In the order of the workers where there is one host.
  EXPECT_THAT(PlaceRanks(graph, GroupWorkers({{"a", ""}, {"a", ""}, {"a", ""}}), 4),
              ElementsAre(0, 1, 2, 0));
}

TEST(Hosts, a_host_gets_its_share_of_the_ranks) {
  const graph::Graph graph = CrossedPairs();
  EXPECT_THAT(PlaceRanks(graph, GroupWorkers({{"a", "a"}, {"b", "b"}, {"b", "b"}}), 4),
              ElementsAre(0, 1, 0, 2));
  EXPECT_THAT(PlaceRanks(graph, GroupWorkers({{"a", "a"}, {"b", "b"}, {"b", "b"}}), 1),
              ElementsAre(0, 1, 0, 1));
}

TEST(Hosts, a_host_gets_a_rank_a_gpu_as_long_as_there_are_enough) {
  graph::Graph graph = CrossedPairs();
  const auto on = [](std::vector<int> gpus) {
    return GroupWorkers({{"a", "a", gpus[0]}, {"b", "b", gpus[1]}}, true);
  };
  const auto workers = [&](const Hosts& hosts) { return PlaceRanks(graph, hosts, 4); };
  EXPECT_THAT(workers(on({8, 8})), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(workers(on({1, 3})), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(workers(on({2, 2})), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(workers(on({4, 0})), ElementsAre(0, 0, 0, 0));
  EXPECT_FALSE(SharesGpu(workers(on({1, 3})), on({1, 3})));
  EXPECT_THAT(workers(on({1, 2})), ElementsAre(0, 1, 0, 1));
  EXPECT_TRUE(SharesGpu(workers(on({1, 2})), on({1, 2})));
  EXPECT_FALSE(SharesGpu({0, 0}, GroupWorkers({{"a", "a", 1}}))) << "the virtual device";
  EXPECT_EQ(PlacesText(graph.sandbox_ranks, workers(on({1, 3})), on({1, 3})),
            "rank 0 on a (1 GPU); ranks 1-3 on b (3 GPUs)");
}

}  // namespace
}  // namespace prism::launch
