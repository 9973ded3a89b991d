// NCCL's choices as far as they are known from its own tables and from published runs.
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/cost/collective_cost.h"
#include "replayer/cost/congestion.h"
#include "replayer/cost/nccl_tuner.h"
#include "tests/support/test_parameters.h"

namespace prism::replayer {
namespace {

using graph::CollectiveKind;

constexpr int64_t kMiB = 1 << 20;

// One or several nodes of eight H100s with 400 Gb/s per GPU.
NcclFabric Hopper(int32_t size) {
  NcclFabric fabric;
  fabric.architecture = NcclArchitecture::kHopper;
  fabric.size = size;
  fabric.nodes = (size + 7) / 8;
  fabric.ranks_per_node = fabric.fewest_per_node = size < 8 ? size : 8;
  fabric.channels = 24;
  fabric.intra_bandwidth = 370e9;
  fabric.inter_bandwidth = 384e9;
  fabric.nvls = true;
  return fabric;
}

TEST(NcclTuner, estimates_are_those_of_its_tables) {
  const NcclTuner node(Hopper(8));
  const NcclChoice ring = {NcclAlgorithm::kRing, NcclProtocol::kSimple};
  // 8.4 + 14 steps of 3.4 us; 370 GB/s over 14 / 8.
  EXPECT_NEAR(node.LatencySeconds(CollectiveKind::kAllReduce, ring), 56e-6, 1e-9);
  EXPECT_NEAR(node.Bandwidth(CollectiveKind::kAllReduce, ring, kMiB), 370e9 * 8 / 14, 1);
  const NcclTuner four_nodes(Hopper(32));
  const NcclChoice tree = {NcclAlgorithm::kTree, NcclProtocol::kLl};
  // 6.8 + 2 · (7 · 0.6 + 2 · 5) us.
  EXPECT_NEAR(four_nodes.LatencySeconds(CollectiveKind::kAllReduce, tree), 35.2e-6, 1e-9);
  const NcclChoice nvls_tree = {NcclAlgorithm::kNvlsTree, NcclProtocol::kSimple};
  // 25 + 2 · 2 · 20.9 us.
  EXPECT_NEAR(four_nodes.LatencySeconds(CollectiveKind::kAllReduce, nvls_tree), 108.6e-6, 1e-9);
  const NcclChoice quick_ring = {NcclAlgorithm::kRing, NcclProtocol::kLl};
  // 6.6 + 6 steps between nodes of 2.7 us and 56 inside: no shorter than it takes to post one.
  EXPECT_NEAR(four_nodes.LatencySeconds(CollectiveKind::kAllReduce, quick_ring), 78.8e-6, 1e-9);
}

TEST(NcclTuner, small_messages_take_ll_and_large_ones_the_switch) {
  const NcclTuner node(Hopper(8));
  EXPECT_EQ(node.Choose(CollectiveKind::kAllReduce, 1024).protocol, NcclProtocol::kLl);
  EXPECT_EQ(node.Choose(CollectiveKind::kAllReduce, 1024 * kMiB).algorithm, NcclAlgorithm::kNvls);
  // Published measurements: four and five GPUs of a node use the ring.
  EXPECT_EQ(NcclTuner(Hopper(5)).Choose(CollectiveKind::kAllReduce, 1024 * kMiB).algorithm,
            NcclAlgorithm::kRing);
  EXPECT_EQ(NcclTuner(Hopper(6)).Choose(CollectiveKind::kAllReduce, 1024 * kMiB).algorithm,
            NcclAlgorithm::kNvls);
  EXPECT_EQ(NcclTuner(Hopper(64)).Choose(CollectiveKind::kAllReduce, 1024).algorithm,
            NcclAlgorithm::kTree);
  NcclFabric nodes = Hopper(64);
  EXPECT_EQ(NcclTuner(nodes).Choose(CollectiveKind::kAllReduce, 256 * kMiB).algorithm,
            NcclAlgorithm::kNvlsTree);
  nodes.fewest_per_node = 5;  // the switch of every node takes part
  EXPECT_NE(NcclTuner(nodes).Choose(CollectiveKind::kAllReduce, 256 * kMiB).algorithm,
            NcclAlgorithm::kNvlsTree);
}

// tuning.cc of 2.20: 14 us a step of NVLSTree over the network instead of 20.9, and 28 a step of a
// tree with Simple instead of 14.
TEST(NcclTuner, older_releases_choose_by_their_own_tables) {
  NcclFabric old = Hopper(512);
  old.release = 220;
  const NcclChoice nvls_tree = {NcclAlgorithm::kNvlsTree, NcclProtocol::kSimple};
  EXPECT_NEAR(NcclTuner(old).LatencySeconds(CollectiveKind::kAllReduce, nvls_tree), 191e-6, 1e-9);
  old.ll128 = false;
  NcclFabric today = old;
  today.release = kNewestNccl;
  EXPECT_EQ(NcclTuner(old).Choose(CollectiveKind::kAllReduce, 8 * kMiB), nvls_tree);
  EXPECT_EQ(NcclTuner(today).Choose(CollectiveKind::kAllReduce, 8 * kMiB).algorithm,
            NcclAlgorithm::kTree);
  old = Hopper(8);
  old.release = 212;  // before NVLS
  EXPECT_EQ(NcclTuner(old).Choose(CollectiveKind::kAllReduce, 1024 * kMiB).algorithm,
            NcclAlgorithm::kRing);
}

TEST(NcclTuner, a_forced_algorithm_counts_where_the_collective_has_it) {
  const NcclTuner node(Hopper(8));
  EXPECT_EQ(node.Choose(CollectiveKind::kAllReduce, 1024 * kMiB, NcclAlgorithm::kRing).algorithm,
            NcclAlgorithm::kRing);
  // A tree of all_gather does not exist: forcing it changes nothing.
  EXPECT_EQ(node.Choose(CollectiveKind::kAllGather, 1024, NcclAlgorithm::kTree),
            node.Choose(CollectiveKind::kAllGather, 1024));
}

TEST(NcclTuner, ll128_is_never_chosen_where_the_fabric_lacks_it) {
  NcclFabric efa = Hopper(32);
  efa.ll128 = false;
  for (int64_t bytes = 8; bytes < 4096 * kMiB; bytes *= 2) {
    EXPECT_NE(NcclTuner(efa).Choose(CollectiveKind::kAllReduce, bytes).protocol,
              NcclProtocol::kLl128);
  }
}

TEST(CollectiveCost, rings_of_a_cube_mesh_follow_its_links) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpu.compute_major = 7;
  cluster.gpus_per_node = 8;
  cluster.parameters.SetValue("net.cube_mesh", 1);
  cluster.parameters.SetValue("nccl.ring_local_bytes_per_s", 1e17);
  cluster.parameters.SetValue("nccl.nvls_efficiency", 0);
  const CollectiveCost cost(cluster);
  const NcclChoice ring = {NcclAlgorithm::kRing, NcclProtocol::kSimple};
  graph::CollectiveShape shape;
  shape.bytes = 1024 * kMiB;
  const auto bus = [&](int32_t ranks) {
    return 2.0 * (ranks - 1) / ranks / cost.Seconds(shape, {ranks, 1, ranks, 1}, ring);
  };
  // One ring through two GPUs, two through three, six through all eight.
  EXPECT_NEAR(bus(3) / bus(2), 2, 0.01);
  EXPECT_NEAR(bus(8) / bus(2), 6, 0.05);
}

// A channel moves 38,400 bytes at a time: 24 channels of 8 ranks are full at 7 MiB.
TEST(CollectiveCost, small_messages_with_ll128_leave_channels_of_a100_idle) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpu.compute_major = 8;
  cluster.gpus_per_node = 8;
  cluster.parameters.SetValue("nccl.channels.collective", 24);
  cluster.parameters.SetValue("net.nvlink_bytes_per_s", 300e9);
  cluster.parameters.SetValue("nccl.ring_efficiency", 1);
  cluster.parameters.SetValue("nccl.ring_local_bytes_per_s", 1e17);
  const auto seconds = [&](double release, int64_t bytes) {
    cluster.parameters.SetValue("nccl.release", release);
    graph::CollectiveShape shape;
    shape.bytes = bytes;
    return CollectiveCost(cluster).Seconds(shape, {8, 1, 8, 1},
                                           {NcclAlgorithm::kRing, NcclProtocol::kLl128});
  };
  EXPECT_EQ(seconds(214, kMiB), seconds(214, 2 * kMiB));
  EXPECT_GT(seconds(214, 12 * kMiB), 1.5 * seconds(214, 2 * kMiB));
  EXPECT_LT(seconds(230, kMiB), seconds(230, 2 * kMiB));
}

TEST(CollectiveCost, messages_of_a_ring_cost_more_with_each_doubling_of_its_nodes) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  graph::CollectiveShape shape;
  shape.bytes = kMiB;
  const NcclChoice ring = {NcclAlgorithm::kRing, NcclProtocol::kSimple};
  const auto seconds = [&](double message_ns, const CommTopology& topology) {
    cluster.parameters.SetValue("net.message_ns", message_ns);
    return CollectiveCost(cluster).Seconds(shape, topology, ring);
  };
  // An all-reduce goes round twice: over two nodes 8 messages each time and 8 for the doubling.
  for (const int32_t doublings : {1, 2, 4}) {
    const CommTopology nodes = {8 << doublings, 1 << doublings, 8, 1};
    EXPECT_NEAR(seconds(40'000, nodes) - seconds(0, nodes), 2 * 8 * (1 + doublings) * 40e-6, 1e-9);
  }
  const CommTopology node = {8, 1, 8, 1};
  EXPECT_EQ(seconds(40'000, node), seconds(0, node));
}

// The NICs of one GPU carry what eight have on the other node.
TEST(CollectiveCost, the_emptiest_node_holds_up_an_uneven_communicator) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  cluster.parameters.SetValue("net.nics_per_node", 8);
  cluster.parameters.SetValue("net.crossed_nic_factor", 1);
  cluster.parameters.SetValue("nccl.ring_efficiency", 1);
  cluster.parameters.SetValue("nccl.ring_local_bytes_per_s", 1e17);
  const CollectiveCost cost(cluster);
  graph::CollectiveShape shape;
  shape.bytes = 1024 * kMiB;
  const auto seconds = [&](uint32_t ranks) {
    std::vector<uint32_t> members(ranks);
    std::iota(members.begin(), members.end(), 0U);
    return SecondsFromNs(cost.Collective(shape, TopologyOf(members, 8)));
  };
  // A ring moves 16 / 9 of the bytes through one NIC.
  EXPECT_GE(seconds(9), 16.0 / 9 * static_cast<double>(shape.bytes) / cost.NicBandwidth());
  EXPECT_NEAR(seconds(9) / seconds(10), 2, 0.1);  // two NICs
  EXPECT_GT(seconds(9), 1.5 * seconds(16));
}

TEST(Congestion, meets_pipelines_over_nodes_and_jobs_of_many_nodes) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  cluster.parameters.SetValue("host.collective_rank_ns", 1000);
  cluster.parameters.SetValue("net.stall_nodes", 16);
  cluster.parameters.SetValue("net.stall_ns", 5000);
  const auto more = [&](const graph::ParallelSizes& sizes, const char* key) {
    graph::JobSpec job;
    job.parallel = sizes;
    return WithCongestion(cluster, job).parameters.Value(key) - cluster.parameters.Value(key);
  };
  EXPECT_EQ(more({.tp = 4, .dp = 2, .pp = 2}, "host.collective_ns"), 4000);
  EXPECT_EQ(more({.tp = 4, .dp = 1, .pp = 2}, "host.collective_ns"), 0);  // on one node
  EXPECT_EQ(more({.tp = 4, .dp = 8}, "host.collective_ns"), 0);           // no pipeline
  EXPECT_EQ(more({.tp = 4, .dp = 2, .pp = 2}, "p2p.base_ns"), 0);
  EXPECT_EQ(more({.tp = 4, .dp = 16, .pp = 2}, "p2p.base_ns"), 5000);
  EXPECT_EQ(more({.tp = 32, .dp = 1, .pp = 2}, "p2p.base_ns"), 5000);
}

// Those that always stall, and those that never do, have no second prediction.
TEST(Congestion, tells_what_a_job_takes_that_stalls_now_and_then) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  cluster.parameters.SetValue("net.stall_nodes", 16);
  cluster.parameters.SetValue("net.stall_ns", 5000);
  const auto stalled = [&](const graph::ParallelSizes& sizes) {
    graph::JobSpec job;
    job.parallel = sizes;
    return Stalled(cluster, job);
  };
  const auto some = stalled({.tp = 4, .dp = 2, .pp = 2});
  ASSERT_TRUE(some.has_value());
  EXPECT_EQ(some->parameters.Value("p2p.base_ns") - cluster.parameters.Value("p2p.base_ns"), 5000);
  EXPECT_FALSE(stalled({.tp = 4, .dp = 16, .pp = 2}).has_value());
  EXPECT_FALSE(stalled({.tp = 4, .dp = 1, .pp = 2}).has_value());
}

// A slow link slows latency and bytes alike.
TEST(CollectiveCost, shares_of_a_slow_link_sum_to_the_whole) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  const CollectiveCost cost(cluster);
  const CommTopology whole = {32, 4, 8, 1};
  const CommTopology slow = {32, 4, 8, 3, std::nullopt, 0, 5};
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllToAll}) {
    graph::CollectiveShape shape;
    shape.kind = kind;
    shape.bytes = 64 * kMiB;
    const double factor = kind == CollectiveKind::kAllReduce ? 3 : 5;
    EXPECT_DOUBLE_EQ(cost.ShareOf(shape, slow).fixed, factor * cost.ShareOf(shape, whole).fixed);
    EXPECT_DOUBLE_EQ(cost.ShareOf(shape, slow).network,
                     factor * cost.ShareOf(shape, whole).network);
  }
}

// With one GPU a node nothing passes what connects the GPUs of a node.
TEST(CollectiveCost, rings_of_one_gpu_a_node_do_not_depend_on_pcie) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  cluster.parameters.SetValue("net.nvlink_bytes_per_s", 0);
  cluster.parameters.SetValue("nccl.nvls_efficiency", 0);
  const auto time = [&](double pcie, int64_t bytes) {
    cluster.parameters.SetValue("net.pcie_bytes_per_s", pcie);
    graph::CollectiveShape shape;
    shape.bytes = bytes;
    return CollectiveCost(cluster).Collective(shape, {8, 8, 1, 1});
  };
  for (int64_t bytes = 1024; bytes < 1024 * kMiB; bytes *= 2) {
    EXPECT_EQ(time(1e8, bytes), time(1e11, bytes)) << bytes;
  }
}

// Above the network's inline path what it adds to a step grows by half; Simple has it twice anyway.
TEST(CollectiveCost, steps_of_large_messages_wait_longer_for_the_network) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  const auto added = [&](NcclProtocol protocol, int64_t bytes) {
    graph::CollectiveShape shape;
    shape.kind = CollectiveKind::kAllGather;
    shape.bytes = bytes;
    const auto seconds = [&](double hop_ns) {
      cluster.parameters.SetValue("net.hop_ns", hop_ns);
      return CollectiveCost(cluster).Seconds(shape, {16, 2, 8, 1},
                                             {NcclAlgorithm::kRing, protocol});
    };
    return seconds(100'000) - seconds(0);
  };
  EXPECT_NEAR(added(NcclProtocol::kLl, 8), 100e-6, 1e-7);
  EXPECT_NEAR(added(NcclProtocol::kLl, 64 * kMiB), 150e-6, 1e-7);
}

// All channels of a chain inside a node run one way.
TEST(CollectiveCost, a_chain_inside_a_node_exposes_one_step) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  const CollectiveCost cost(cluster);
  graph::CollectiveShape shape;
  shape.kind = CollectiveKind::kBroadcast;
  for (shape.bytes = 8; shape.bytes <= kMiB; shape.bytes *= 2) {
    const NcclChoice quick = {NcclAlgorithm::kRing, NcclProtocol::kLl};
    EXPECT_DOUBLE_EQ(cost.Seconds(shape, {8, 1, 8, 1}, quick),
                     cost.Seconds(shape, {2, 1, 2, 1}, quick));
  }
}

// The sum goes back to the one that holds it, too: an eighth of the bytes.
TEST(CollectiveCost, only_an_all_reduce_passes_the_switch_both_ways) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  cluster.gpu.compute_major = 9;
  cluster.parameters.SetValue("nccl.nvls_efficiency", 1);
  const CollectiveCost cost(cluster);
  const auto seconds = [&](CollectiveKind kind) {
    graph::CollectiveShape shape;
    shape.kind = kind;
    shape.bytes = 800'000'000;
    return cost.Seconds(shape, {8, 1, 8, 1}, {NcclAlgorithm::kNvls, NcclProtocol::kSimple});
  };
  EXPECT_NEAR(seconds(CollectiveKind::kAllReduce) - seconds(CollectiveKind::kAllGather), 1e-3,
              1e-9);  // at 100 GB/s
}

TEST(CollectiveCost, network_adds_its_latency_and_loses_bandwidth_with_nodes) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  graph::CollectiveShape small;
  small.bytes = 8;
  const CommTopology nodes = {64, 8, 8, 1};
  const DurationNs before = CollectiveCost(cluster).Collective(small, nodes);
  cluster.parameters.SetValue("net.hop_ns", 20'700);
  const DurationNs after = CollectiveCost(cluster).Collective(small, nodes);
  EXPECT_NEAR(static_cast<double>(after - before), 2 * 3 * 20'000, 100);  // up and down 3 levels
  graph::CollectiveShape large;
  large.bytes = 65536 * kMiB;
  cluster.parameters.SetValue("nccl.ring_efficiency",
                              1);  // 100 GB/s, as two NICs at 0.5 of 100 GB/s
  cluster.parameters.SetValue("nccl.nvls_efficiency", 0);
  cluster.parameters.SetValue("nccl.ring_local_bytes_per_s", 1e17);
  const DurationNs lossy = CollectiveCost(cluster).Collective(large, nodes);
  cluster.parameters.SetValue("net.bandwidth_loss_per_doubling", 0);
  const DurationNs whole = CollectiveCost(cluster).Collective(large, nodes);
  EXPECT_NEAR(static_cast<double>(lossy) / static_cast<double>(whole), 1.5 * 1.5 * 1.5, 0.01);
}

// Between nodes the channels of a communicator take different paths, so a chain's steps show.
TEST(CollectiveCost, chains_and_exchanges_of_more_ranks_take_longer) {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  cluster.gpus_per_node = 8;
  const CollectiveCost cost(cluster);
  const auto seconds = [&](CollectiveKind kind, int32_t nodes, int64_t bytes) {
    return cost.Collective({kind, DataType::kFloat32, graph::ReduceOp::kNone, -1, bytes},
                           {8 * nodes, nodes, 8, 1});
  };
  for (const CollectiveKind kind :
       {CollectiveKind::kBroadcast, CollectiveKind::kReduce, CollectiveKind::kAllToAll}) {
    for (const int32_t nodes : {4, 16, 64, 256}) {
      EXPECT_LT(seconds(kind, nodes, 65536), seconds(kind, 2 * nodes, 65536)) << nodes;
      EXPECT_LE(seconds(kind, nodes, 32768), seconds(kind, nodes, 262144)) << nodes;
    }
  }
  // Inside a node every channel takes the same path: one step shows.
  EXPECT_LT(seconds(CollectiveKind::kReduce, 1, 32768),
            seconds(CollectiveKind::kReduce, 2, 32768) / 2);
}

}  // namespace
}  // namespace prism::replayer
