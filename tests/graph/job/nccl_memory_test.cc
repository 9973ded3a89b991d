// The worked numbers of NCCL's memory: 8 GPUs of an H100 node, 24 collective and 32 send/recv
// channels, 32 per peer, 16 of NVLS, 2 MiB granules.
#include "graph/job/nccl_memory.h"

#include <gtest/gtest.h>

namespace prism::graph {
namespace {

constexpr int64_t kMiB = 1 << 20;

NcclMemoryModel Cluster(int32_t compute_major) {
  return {.collective_channels = 24,
          .p2p_channels = 32,
          .p2p_channels_per_peer = 32,
          .nvls_channels = compute_major >= 9 ? 16 : 0,
          .granularity_bytes = 2 * kMiB,
          .reads_peers = compute_major == 8};
}

TEST(NcclMemory, eight_h100_of_a_node) {
  const NcclMemoryModel model = Cluster(9);
  const CommunicatorShape node = {.size = 8, .local_ranks = 8, .node_count = 1};
  EXPECT_EQ(model.SetupBytes(node), (4 + 192 + 34) * kMiB);
  EXPECT_EQ(model.RingBytes(node), 12 * 24 * kMiB);
  EXPECT_EQ(model.NvlsBytes(node), 256 * kMiB);
  EXPECT_EQ(7 * (model.PeerBytes(true) + model.PeerBytes(false)), 2688 * kMiB);
}

// NCCL issue 964: ring of four A100, 288 MiB.
TEST(NcclMemory, four_a100_read_their_peers) {
  const NcclMemoryModel model = Cluster(8);
  const CommunicatorShape node = {.size = 4, .local_ranks = 4, .node_count = 1};
  EXPECT_EQ(model.SetupBytes(node), (4 + 192) * kMiB);
  EXPECT_EQ(model.RingBytes(node), 288 * kMiB);
  EXPECT_EQ(model.PeerBytes(true), 32 * 6 * kMiB);
  EXPECT_EQ(model.PeerBytes(false), 32 * 6 * kMiB);
  EXPECT_EQ(model.NvlsBytes(node), 0);
}

// One rank per node: all ring connections go over the network, 10 MiB per side and channel; send
// and receive share 64 MiB per direction.
TEST(NcclMemory, rings_of_one_rank_per_node_go_over_the_network) {
  const NcclMemoryModel model = Cluster(9);
  const CommunicatorShape spread = {.size = 64, .local_ranks = 1, .node_count = 64};
  EXPECT_EQ(model.SetupBytes(spread), (4 + 192) * kMiB);
  EXPECT_EQ(model.RingBytes(spread), 20 * 24 * kMiB);
  EXPECT_EQ(model.NetworkPeerBytes(), 64 * kMiB);
}

TEST(NcclMemory, no_peers_no_connections) {
  const NcclMemoryModel model = Cluster(9);
  EXPECT_EQ(model.RingBytes({.size = 1, .local_ranks = 1, .node_count = 1}), 0);
}

}  // namespace
}  // namespace prism::graph
