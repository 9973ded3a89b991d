// A network file instead of a cluster's network: a cluster that is written and read back is
// unchanged.
#include "launch/inputs/network_cluster.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/inputs/presets.h"
#include "replayer/cost/collective_cost.h"
#include "slicer/export/chakra/chakra_export.h"

namespace prism::launch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// A node and a network, rates in bytes per second, latencies in seconds.
slicer::AstraNetwork Network(double rate, double latency) {
  return {{"Switch", "Switch"}, {8, 4}, {rate, rate / 4}, {0, latency}};
}

// Compares the cluster with what is read from the network file written for it.
void ExpectReadBack(const graph::ClusterSpec& cluster) {
  constexpr int64_t kBytes = 400'000'000;
  const auto ranks = static_cast<uint32_t>(4 * cluster.gpus_per_node);
  slicer::Notes notes;
  const slicer::AstraNetwork written = NetworkOf(cluster, ranks, &notes);
  graph::ClusterSpec read = cluster;
  ASSERT_TRUE(UseNetwork(written, "net.yml", &read, &notes).ok());
  EXPECT_EQ(AstraNetworkText(NetworkOf(read, ranks, &notes)), AstraNetworkText(written));
  const replayer::CollectiveCost before(cluster);
  const replayer::CollectiveCost after(read);
  for (const bool same_node : {true, false}) {
    EXPECT_EQ(after.PeerTransfer(kBytes, same_node), before.PeerTransfer(kBytes, same_node));
  }
}

TEST(NetworkCluster, reads_what_was_written_of_a_cluster) {
  graph::ClusterSpec cluster = *LoadCluster("h100-8x");
  ExpectReadBack(cluster);
  cluster.parameters.SetValue("net.hop_ns", 23600);
  ExpectReadBack(cluster);
  cluster.parameters.SetValue("net.nics_per_node", 4);
  cluster.parameters.SetValue("net.shared_nic_factor", 0.7);
  ExpectReadBack(cluster);
  cluster.parameters.SetValue("net.nvlink_bytes_per_s", 0);
  ExpectReadBack(cluster);
}

TEST(NetworkCluster, messages_have_the_whole_rate_and_latency) {
  graph::ClusterSpec cluster = *LoadCluster("h100-8x");
  const double base = cluster.parameters.Value("p2p.base_ns");
  slicer::Notes notes;
  ASSERT_TRUE(UseNetwork(Network(400e9, 20e-6), "net.yml", &cluster, &notes).ok());
  const replayer::CollectiveCost cost(cluster);
  EXPECT_NEAR(static_cast<double>(cost.PeerTransfer(400'000'000, true)), 1e6 + base, 1);
  EXPECT_NEAR(static_cast<double>(cost.PeerTransfer(400'000'000, false)), 4e6 + 20e3, 1);
  EXPECT_THAT(notes.Lines(), Not(Contains(HasSubstr("latencies between nodes"))));
}

TEST(NetworkCluster, latency_below_that_of_a_message_is_counted) {
  graph::ClusterSpec cluster = *LoadCluster("h100-8x");
  slicer::Notes notes;
  ASSERT_TRUE(UseNetwork(Network(400e9, 500e-9), "net.yml", &cluster, &notes).ok());
  EXPECT_EQ(cluster.parameters.Value("net.hop_ns"), 0);
  EXPECT_THAT(notes.Lines(), Contains(HasSubstr("latencies between nodes")));
}

}  // namespace
}  // namespace prism::launch
