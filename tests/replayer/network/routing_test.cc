#include "replayer/network/routing.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace prism::replayer {
namespace {

using graph::FabricKind;
using graph::FabricRouting;
using graph::NetworkSpec;

// The path from NIC `nic` of one node to that of another, as names of what it passes.
std::vector<std::string> Way(const Topology& topology, Router* router, VertexId from, VertexId to) {
  std::vector<LinkId> way;
  std::vector<std::string> names;
  if (router->FindWay(from, to, 7, &way)) {
    for (const LinkId link : way) {
      names.push_back(topology.NameOf(topology.links()[link].to));
    }
  }
  return names;
}

std::vector<double> Unused(const Topology& topology) {
  return std::vector<double>(topology.links().size(), 1);
}

// Mean over 1,000 seeds of (fullest of 16 links / mean of the links).
double Imbalance(uint32_t flows) {
  double sum = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::vector<uint32_t> load(16, 0);
    for (uint64_t flow = 0; flow < flows; ++flow) {
      ++load[EcmpChoice(flow, seed, 16)];
    }
    sum += *std::max_element(load.begin(), load.end()) * 16.0 / flows;
  }
  return sum / 1000;
}

// The expectation for balls thrown into 16 bins: 3.075, 1.970, 1.465 and 1.230 on average. The mean
// of 1,000 seeds of 16 flows varies by 0.024.
TEST(Routing, ecmp_is_as_uneven_as_a_hash) {
  EXPECT_NEAR(Imbalance(1000), 1.23, 0.02);
  EXPECT_NEAR(Imbalance(256), 1.47, 0.02);
  EXPECT_NEAR(Imbalance(64), 1.97, 0.02);
  EXPECT_NEAR(Imbalance(16), 3.04, 0.02);
}

TEST(Routing, keeps_to_the_leaf_of_a_rail_and_crosses_one_spine_between_groups) {
  NetworkSpec spec;
  spec.nodes_per_leaf = 2;
  spec.leaf_uplinks = 2;
  const Topology topology(spec, {4, 2, 100});
  const MaxMinSolver solver(Unused(topology));
  Router router(topology, solver, 0);
  EXPECT_EQ(Way(topology, &router, topology.PortOf(0, 1, 0), topology.PortOf(1, 1, 0)),
            (std::vector<std::string>{"leaf1", "node1.nic1"}));
  const std::vector<std::string> across =
      Way(topology, &router, topology.PortOf(0, 1, 0), topology.PortOf(2, 1, 0));
  ASSERT_EQ(across.size(), 4U);
  EXPECT_EQ(across[0], "leaf1");
  EXPECT_EQ(across[1].substr(0, 5), "spine");
  EXPECT_EQ(across[2], "leaf3");
}

TEST(Routing, goes_up_to_a_core_between_pods) {
  NetworkSpec spec;
  spec.kind = FabricKind::kClos;
  spec.nodes_per_leaf = 1;
  spec.leaf_uplinks = 2;
  spec.leaves_per_pod = 2;
  spec.spine_uplinks = 2;
  const Topology topology(spec, {4, 1, 100});
  const MaxMinSolver solver(Unused(topology));
  Router router(topology, solver, 0);
  const std::vector<std::string> way =
      Way(topology, &router, topology.PortOf(0, 0, 0), topology.PortOf(3, 0, 0));
  ASSERT_EQ(way.size(), 6U);
  EXPECT_EQ(way[2].substr(0, 4), "core");
}

TEST(Routing, turns_once_a_dimension_in_a_torus) {
  NetworkSpec spec;
  spec.kind = FabricKind::kTorus;
  spec.routing = FabricRouting::kDimensionOrder;
  spec.torus = {4, 3, 2};
  const Topology topology(spec, {24, 1, 100});
  const MaxMinSolver solver(Unused(topology));
  Router router(topology, solver, 0);
  // (0,0,0) to (3,2,1): one step back along x, one back along y, one along z.
  EXPECT_EQ(
      Way(topology, &router, 0, topology.PortOf(3 + 4 * 2 + 12, 0, 0)),
      (std::vector<std::string>{"router0", "router3", "router11", "router23", "node23.nic0"}));
}

TEST(Routing, leaves_broken_links_and_switches_aside) {
  NetworkSpec spec;
  spec.nodes_per_leaf = 1;
  spec.leaf_uplinks = 2;
  const Topology topology(spec, {2, 1, 100});
  const MaxMinSolver solver(Unused(topology));
  Router router(topology, solver, 0);
  ASSERT_TRUE(router.Fail("spine0").ok());
  EXPECT_EQ(Way(topology, &router, 0, 1),
            (std::vector<std::string>{"leaf0", "spine1", "leaf1", "node1.nic0"}));
  EXPECT_FALSE(router.Fail("spine7").ok());
  EXPECT_FALSE(router.Fail("leaf0-leaf1").ok());
  Router cut(topology, solver, 0);
  ASSERT_TRUE(cut.Fail("spine0").ok());
  ASSERT_TRUE(cut.Fail("leaf0-spine1").ok());
  EXPECT_TRUE(Way(topology, &cut, 0, 1).empty());
}

TEST(Routing, joins_clusters_by_their_gateways) {
  NetworkSpec spec;
  spec.nodes_per_leaf = 1;
  spec.leaf_uplinks = 1;
  spec.nodes_per_cluster = 2;
  spec.cluster_bytes_per_s = 1e9;
  const Topology topology(spec, {4, 1, 100});
  const MaxMinSolver solver(Unused(topology));
  Router router(topology, solver, 0);
  const std::vector<std::string> way = Way(topology, &router, 0, 3);
  EXPECT_EQ(way, (std::vector<std::string>{"c0.leaf0", "c0.spine0", "c0.gateway", "c1.gateway",
                                           "c1.spine0", "c1.leaf1", "node3.nic0"}));
}

TEST(Routing, refuses_networks_that_cannot_join_their_nodes) {
  NetworkSpec torus;
  torus.kind = FabricKind::kTorus;
  torus.torus = {2, 2, 1};
  EXPECT_EQ(NetworkFault(torus, {4, 8, 100}), "");
  EXPECT_EQ(NetworkFault(torus, {5, 8, 100}),
            "network: a torus of 2 x 2 x 1 has 4 places for 5 nodes");
  torus.nodes_per_cluster = 4;
  EXPECT_EQ(NetworkFault(torus, {5, 8, 100}), "");
  EXPECT_EQ(NetworkFault({}, {2'000'000'000, 8, 100}),
            "network: it would join 2000000000 nodes; 1 to 1048576 are possible");
}

// One of each shape; checked before anything is built.
TEST(Routing, refuses_networks_of_too_many_parts) {
  NetworkSpec wide;
  wide.nodes_per_leaf = 1;
  wide.leaf_uplinks = 4096;
  wide.leaves_per_pod = 1;
  wide.spine_uplinks = 4096;
  EXPECT_EQ(
      NetworkFault(wide, {8, 8, 100}),
      "network: it would have 17039488 NICs and switches and 1074004032 cables; at most 16777216 "
      "and 16777216 are possible");
  NetworkSpec clusters;
  clusters.nodes_per_cluster = 1;
  EXPECT_NE(NetworkFault(clusters, {131072, 8, 100}), "");
  EXPECT_EQ(NetworkFault({}, {131072, 8, 100}), "");
}

TEST(Routing, refuses_rates_that_leave_the_clock) {
  NetworkSpec spec;
  spec.cluster_ns = 1e18;
  EXPECT_EQ(NetworkFault(spec), "network: cluster_ns is 1e+18; it must be from 0 to 1000000000");
  spec.cluster_ns = 1e9;
  EXPECT_EQ(NetworkFault(spec), "");
  spec.uplink_bytes_per_s = 1e-9;
  EXPECT_EQ(NetworkFault(spec),
            "network: a bandwidth is 1e-09; it must be from 1000000 to 1e+18 byte/s");
  spec.uplink_bytes_per_s = 1e6;
  EXPECT_EQ(NetworkFault(spec), "");
}

}  // namespace
}  // namespace prism::replayer
