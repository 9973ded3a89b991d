#include "replayer/network/flow_replay.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/cost/collective_cost.h"
#include "replayer/replay.h"
#include "replayer/report/link_report.h"
#include "tests/support/random_graph.h"
#include "tests/support/test_parameters.h"
#include "tests/support/tiny_graph.h"

namespace prism::replayer {
namespace {

using graph::OpKind;
using prism::testing::TinyOp;

ReplayOptions FlowOptions(const graph::Graph& graph) {
  ReplayOptions options;
  options.network = NetworkModel::kFlow;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    options.traced.emplace_back(rank);
  }
  return options;
}

// A send or receive whose duration the model gives; peer slot i is rank i.
TinyOp Message(bool is_send, uint16_t peer, int64_t bytes) {
  TinyOp op = is_send ? prism::testing::Send(0, peer, 1, bytes)
                      : prism::testing::Receive(0, peer, 1, bytes);
  op.value = 0;
  return op;
}

// Ranks 0 and 1 on node 0 send to 2 and 3 on node 1; one NIC per node, of which each rank may use
// half unless `nics` is 2.
graph::Graph TwoSends(double nics) {
  constexpr int64_t kBytes = 1 << 24;
  graph::Graph graph = prism::testing::TinyGraph({{Message(true, 2, kBytes)},
                                                  {Message(true, 3, kBytes)},
                                                  {Message(false, 0, kBytes)},
                                                  {Message(false, 1, kBytes)}});
  for (graph::Role& role : graph.roles) {
    role.program.flags.assign(role.program.size(), 0);
  }
  graph.cluster.parameters.SetValue("net.nics_per_node", nics);
  return graph;
}

void ExpectSame(const std::vector<TimeNs>& flow, const std::vector<TimeNs>& analytic, int rank) {
  const auto [at, other] = std::ranges::mismatch(flow, analytic);
  ASSERT_TRUE(at == flow.end()) << "rank " << rank << ", position " << at - flow.begin() << ": "
                                << *at << " instead of " << *other;
}

void ExpectSameTimes(const ReplayResult& flow, const ReplayResult& analytic) {
  ASSERT_EQ(flow.timelines.size(), analytic.timelines.size());
  for (size_t i = 0; i < flow.timelines.size(); ++i) {
    const auto rank = static_cast<int>(i);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(flow.timelines[i].start, analytic.timelines[i].start, rank));
    ASSERT_NO_FATAL_FAILURE(
        ExpectSame(flow.timelines[i].transfer_start, analytic.timelines[i].transfer_start, rank));
    ASSERT_NO_FATAL_FAILURE(ExpectSame(flow.timelines[i].end, analytic.timelines[i].end, rank));
  }
  EXPECT_EQ(flow.iteration_ns, analytic.iteration_ns);
}

// Sends of one group share their rank's NIC in both models, but not in the same way.
bool GroupsHaveOneOfEach(const graph::Graph& graph) {
  const auto single = [](const graph::PeerGroup& group) {
    const auto sends = std::ranges::count_if(group.transfers, &graph::PeerTransfer::is_send);
    return sends <= 1 && std::ssize(group.transfers) - sends <= 1;
  };
  return std::ranges::all_of(graph.roles, [&](const graph::Role& role) {
    return std::ranges::all_of(role.program.peer_groups, single);
  });
}

// NICs and links that are never full: every transfer takes what the analytic model says.
TEST(FlowReplay, equals_analytic_to_the_nanosecond_where_nothing_is_shared) {
  int64_t flows = 0;
  for (uint64_t seed = 0; seed < 1200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    graph::Graph graph = prism::testing::RandomGraph(prism::testing::RandomOptions(seed));
    if (!GroupsHaveOneOfEach(graph)) {
      continue;
    }
    graph.cluster = prism::testing::TestCluster();
    graph.cluster.parameters.SetValue("p2p.eager_bytes", seed % 2 == 0 ? 0 : 1 << 20U);
    graph.cluster.network.planes = 1 + static_cast<int32_t>(seed % 2);
    ReplayOptions options = FlowOptions(graph);
    const auto unshared = ReplayTogether(
        {{&graph, options}}, [](NetworkSetup* setup) { setup->size.nic_bytes_per_s *= 1e6; });
    ASSERT_TRUE(unshared.ok()) << unshared.status().message();
    flows += unshared->front().flows;
    options.network = NetworkModel::kAnalytic;
    const Result<ReplayResult> analytic = Replay(graph, options);
    ASSERT_TRUE(analytic.ok());
    ASSERT_NO_FATAL_FAILURE(ExpectSameTimes(unshared->front(), *analytic));
  }
  EXPECT_GT(flows, 10'000);
}

TEST(FlowReplay, frozen_times_give_the_same_replay) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    graph::Graph graph = prism::testing::RandomGraph(prism::testing::RandomOptions(seed));
    graph.cluster = prism::testing::TestCluster();
    ReplayOptions options = FlowOptions(graph);
    const Result<ReplayResult> flow = Replay(graph, options);
    ASSERT_TRUE(flow.ok()) << flow.status().message();
    options.frozen = flow->transfers;
    const Result<ReplayResult> frozen = Replay(graph, options);
    ASSERT_TRUE(frozen.ok()) << frozen.status().message();
    ASSERT_NO_FATAL_FAILURE(ExpectSameTimes(*frozen, *flow));
  }
}

// Two nodes of one rank that were recorded with different durations.
TEST(FlowReplay, a_collective_takes_the_longest_of_fixed_durations) {
  for (const auto& [first, second] : {std::pair{50, 30}, std::pair{30, 50}}) {
    graph::Graph graph = prism::testing::TinyGraph(
        {{prism::testing::Collective(0, 0, first)}, {prism::testing::Collective(0, 0, second)}});
    graph.cluster.gpus_per_node = 1;
    ReplayOptions options = FlowOptions(graph);
    options.iterations = 1;
    const Result<ReplayResult> flow = Replay(graph, options);
    ASSERT_TRUE(flow.ok()) << flow.status().message();
    EXPECT_EQ(flow->timelines[0].end[0], 50);
  }
}

// With one NIC each the sends do not meet. With one NIC on a leaf's single uplink, and each node on
// a separate leaf, they share what one of them would have had alone.
TEST(FlowReplay, sends_share_an_uplink) {
  graph::Graph graph = TwoSends(2);
  graph.cluster.network.kind = graph::FabricKind::kClos;
  graph.cluster.network.nodes_per_leaf = 1;
  graph.cluster.network.leaf_uplinks = 2;
  ReplayOptions options = FlowOptions(graph);
  options.iterations = 1;
  const Result<ReplayResult> wide = Replay(graph, options);
  ASSERT_TRUE(wide.ok()) << wide.status().message();
  graph.cluster.network.leaf_uplinks = 1;
  const Result<ReplayResult> narrow = Replay(graph, options);
  ASSERT_TRUE(narrow.ok());
  options.network = NetworkModel::kAnalytic;
  const Result<ReplayResult> analytic = Replay(graph, options);
  ASSERT_TRUE(analytic.ok());
  EXPECT_EQ(wide->timelines[2].end[0], analytic->timelines[2].end[0]);
  const CollectiveCost cost(graph.cluster);
  const DurationNs flow_ns = NsFromSeconds(cost.ShareOfPeer(1 << 24).network);
  EXPECT_NEAR(static_cast<double>(narrow->timelines[2].end[0] - wide->timelines[2].end[0]),
              static_cast<double>(flow_ns), 2);
  EXPECT_EQ(narrow->flows, 2);
}

// Both sends go over one uplink; what a report says about their communicator is the flow's time.
TEST(FlowReplay, counts_the_bytes_of_every_link) {
  graph::Graph graph = TwoSends(2);
  graph.cluster.network.kind = graph::FabricKind::kClos;
  graph.cluster.network.nodes_per_leaf = 1;
  graph.cluster.network.leaf_uplinks = 1;
  const Result<ReplayResult> flow = Replay(graph, FlowOptions(graph));
  ASSERT_TRUE(flow.ok()) << flow.status().message();
  const LinkLoads& loads = *flow->links;
  ASSERT_EQ(loads.links.size(), 6U);  // two NICs to a leaf, up, down, and two NICs
  for (const LinkLoad& link : loads.links) {
    const bool is_shared = link.kind == "leaf-spine" || link.kind == "spine-leaf";
    EXPECT_NEAR(link.bytes, (is_shared ? 2 : 1) * (1 << 24), 1) << link.name;
  }
  EXPECT_EQ(loads.counts.at("leaf-spine"), 2);
  EXPECT_THAT(LinkLoadsText(loads), ::testing::HasSubstr("leaf-spine             2       1"));
}

TEST(FlowReplay, a_communicator_has_the_time_of_its_flows) {
  const auto ranks = [](int64_t) {
    return std::vector<TinyOp>{prism::testing::Collective(0, 0, 0)};
  };
  graph::Graph graph = prism::testing::TinyGraph({ranks(0), ranks(1)});
  graph.cluster.gpus_per_node = 1;
  for (graph::Role& role : graph.roles) {
    role.program.flags.assign(role.program.size(), 0);
    role.program.collectives.front().bytes = 1 << 26;
  }
  ReplayOptions options = FlowOptions(graph);
  options.iterations = 1;
  const auto slow = ReplayTogether({{&graph, options}},
                                   [](NetworkSetup* setup) { setup->size.nic_bytes_per_s /= 100; });
  ASSERT_TRUE(slow.ok()) << slow.status().message();
  const Timeline& timeline = slow->front().timelines[0];
  EXPECT_EQ(slow->front().communicators[0].transfer_ns,
            timeline.end[0] - timeline.transfer_start[0]);
  options.network = NetworkModel::kAnalytic;
  EXPECT_GT(slow->front().communicators[0].transfer_ns,
            50 * Replay(graph, options)->communicators[0].transfer_ns);
}

// Job 0 has the even nodes, job 1 the odd ones.
TEST(FlowReplay, jobs_may_lie_among_each_other) {
  graph::Graph graph = TwoSends(2);
  ReplayOptions even = FlowOptions(graph);
  even.placement = {0, 1, 4, 5};
  ReplayOptions odd = FlowOptions(graph);
  odd.placement = {2, 3, 6, 7};
  EXPECT_TRUE(ReplayTogether({{&graph, even, 0}, {&graph, odd, 0}}).ok());
  odd.placement = {2, 3, 4, 5};
  const auto overlapping = ReplayTogether({{&graph, even, 0}, {&graph, odd, 0}});
  ASSERT_FALSE(overlapping.ok());
  EXPECT_EQ(overlapping.status().message(), "jobs 0 and 1 overlap on node 2");
}

TEST(FlowReplay, says_who_is_cut_off) {
  graph::Graph graph = TwoSends(2);
  ReplayOptions options = FlowOptions(graph);
  Perturbation broken;
  broken.kind = PerturbationKind::kFail;
  broken.part = "leaf1";
  options.perturbations.push_back(broken);
  const Result<ReplayResult> cut = Replay(graph, options);
  ASSERT_FALSE(cut.ok());
  EXPECT_NE(cut.status().message().find("NIC 1 of node 0 cannot reach NIC 1 of node 1"),
            std::string::npos)
      << cut.status().message();
}

// The other plane carries everything that a broken leaf of one plane cuts off, at half the
// bandwidth.
TEST(FlowReplay, a_second_plane_takes_over) {
  graph::Graph graph = TwoSends(2);
  graph.cluster.network.planes = 2;
  ReplayOptions options = FlowOptions(graph);
  options.iterations = 1;
  const Result<ReplayResult> whole = Replay(graph, options);
  ASSERT_TRUE(whole.ok());
  Perturbation broken;
  broken.kind = PerturbationKind::kFail;
  broken.part = "p0.leaf1";
  options.perturbations.push_back(broken);
  const Result<ReplayResult> half = Replay(graph, options);
  ASSERT_TRUE(half.ok()) << half.status().message();
  EXPECT_EQ(half->timelines[2].end[0], whole->timelines[2].end[0]);
  const CollectiveCost cost(graph.cluster);
  const DurationNs flow_ns = NsFromSeconds(cost.ShareOfPeer(1 << 24).network);
  EXPECT_NEAR(static_cast<double>(half->timelines[3].end[0] - whole->timelines[3].end[0]),
              static_cast<double>(flow_ns), 2);
}

// Two jobs side by side on leaves that they share slow each other, or not, as the uplinks allow.
TEST(FlowReplay, jobs_share_one_network) {
  graph::Graph graph = TwoSends(2);
  graph.cluster.network.kind = graph::FabricKind::kClos;
  graph.cluster.network.nodes_per_leaf = 1;
  graph.cluster.network.leaf_uplinks = 2;
  graph.cluster.network.leaves_per_pod = 1;
  graph.cluster.network.spine_uplinks = 1;
  ReplayOptions options = FlowOptions(graph);
  options.iterations = 1;
  const Result<ReplayResult> alone = Replay(graph, options);
  ASSERT_TRUE(alone.ok());
  const auto together = ReplayTogether({{&graph, options, 0}, {&graph, options, 2}});
  ASSERT_TRUE(together.ok()) << together.status().message();
  ASSERT_EQ(together->size(), 2U);
  EXPECT_EQ((*together)[0].timelines[2].end, alone->timelines[2].end);
  EXPECT_EQ((*together)[1].timelines[2].end, alone->timelines[2].end);
  const auto overlapping = ReplayTogether({{&graph, options, 0}, {&graph, options, 1}});
  ASSERT_FALSE(overlapping.ok());
  EXPECT_NE(overlapping.status().message().find("jobs 0 and 1 overlap"), std::string::npos);
}

}  // namespace
}  // namespace prism::replayer
