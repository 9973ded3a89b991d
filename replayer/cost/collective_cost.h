// How long a collective or a send takes once all its members are there.
//
// NCCL's tuner chooses algorithm and protocol (replayer/cost/nccl_tuner.h); how long that choice
// takes is a separate question, answered here with a few physical parameters of the cluster
// (replayer/cost/parameters.h):
//
//   launch + latency · (1 + ramp · x / (1 + x)) + traffic / bandwidth, x = (bytes / 7 MiB)^1.5
//
// latency: NCCL's constants for the hops of that algorithm plus the cluster's own network latency.
// ramp: a hop of a larger message forwards larger chunks, up to a limit, so filling the pipeline
// takes longer; through a node's switch, with Simple, this grows with the logarithm of the size.
// traffic / bandwidth: for the resource that is busy longest, a GPU's links or a node's NICs, in
// the direction with more bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "graph/job/cluster.h"
#include "graph/program/op.h"
#include "replayer/cost/nccl_tuner.h"

namespace prism::replayer {

// What the cost of a communicator depends on. Ranks fill nodes in order, gpus_per_node per node.
struct CommTopology {
  int32_t size = 1;            // ranks
  int32_t nodes = 1;           // nodes spanned
  int32_t ranks_per_node = 1;  // on the fullest node
  double slow_factor = 1;      // of the slowest link of its ring (perturbation)
  std::optional<NcclAlgorithm> algorithm = std::nullopt;  // as NCCL_ALGO; null: NCCL chooses
  int32_t missing = 0;     // ranks that the emptiest node lacks against the fullest
  double pair_factor = 1;  // as slow_factor, of the slowest link between any two of its nodes

  [[nodiscard]] int32_t fewest_per_node() const { return ranks_per_node - missing; }

  auto operator<=>(const CommTopology&) const = default;
};

// The factor by which the slowest link that the collective crosses is slowed: among those of the
// ring, which represent those of trees as well; among all links if every rank sends to every other.
double SlowFactor(graph::CollectiveKind kind, const CommTopology& topology);

CommTopology TopologyOf(std::span<const uint32_t> members, int32_t gpus_per_node);

// One transfer of a group of sends and receives (graph::PeerGroup), seen from one of its ends.
struct PeerLoad {
  enum class Reach : uint8_t { kSelf, kNode, kNetwork };
  int64_t bytes = 0;
  bool is_send = false;
  Reach reach = Reach::kNode;

  bool operator==(const PeerLoad&) const = default;
};

// Which part of a transfer depends on who else uses the network. It takes at least `fixed` plus
// `network`, for the bytes that the NICs carry; longer if links inside nodes are slower than NICs.
struct NetworkShare {
  double network = 0;  // seconds, when nobody else uses the network; 0 inside a node
  double fixed = 0;    // seconds: launch and latency
};

// Bytes over each link of a ring of `size` ranks; a pipelined chain (broadcast, reduce) moves every
// byte once over each.
double RingTraffic(const graph::CollectiveShape& shape, int32_t size);

class CollectiveCost {
 public:
  // `cluster` must have every key of parameters.h.
  explicit CollectiveCost(const graph::ClusterSpec& cluster);

  [[nodiscard]] DurationNs Collective(const graph::CollectiveShape& shape,
                                      const CommTopology& topology) const;

  // One send with its receive.
  [[nodiscard]] DurationNs PeerTransfer(int64_t bytes, bool same_node) const;

  // How long each transfer of a group takes at this end; the end that takes longer counts. Those of
  // one direction share the rank's link evenly while in progress, so a transfer of b bytes waits
  // for min(b, b') of each other one, as in AllToAllSeconds: over the network, of all transfers;
  // inside a node, of those that stay there.
  [[nodiscard]] std::vector<DurationNs> PeerTransfers(std::span<const PeerLoad> group) const;

  // The share of the network between nodes; the sum of its fields is at most the time above.
  [[nodiscard]] NetworkShare ShareOf(const graph::CollectiveShape& shape,
                                     const CommTopology& topology) const;
  [[nodiscard]] NetworkShare ShareOfPeer(int64_t bytes) const;  // between nodes

  // Bandwidth of one fully used NIC, byte/s.
  [[nodiscard]] double NicBandwidth() const { return nic_ * nic_efficiency_; }
  [[nodiscard]] double nics_per_node() const { return nics_per_node_; }

  // Whether a send of that size returns without waiting for its receiver.
  [[nodiscard]] bool IsEager(int64_t bytes) const { return bytes < eager_bytes_; }

  // The tuner's choice; null for kinds that NCCL implements as sends and receives. `only` as in
  // nccl_tuner.h.
  [[nodiscard]] std::optional<NcclChoice> Choose(
      const graph::CollectiveShape& shape,
      const CommTopology& topology,
      std::optional<NcclAlgorithm> only = std::nullopt) const;

  // Seconds that one choice takes, as if it had been forced. Slow links are not applied.
  [[nodiscard]] double Seconds(const graph::CollectiveShape& shape,
                               const CommTopology& topology,
                               NcclChoice choice) const;

 private:
  [[nodiscard]] NcclFabric FabricOf(const CommTopology& topology) const;
  [[nodiscard]] double TrafficSeconds(const graph::CollectiveShape& shape,
                                      const CommTopology& topology,
                                      NcclChoice choice) const;
  [[nodiscard]] double NetworkSeconds(const graph::CollectiveShape& shape,
                                      const CommTopology& topology,
                                      NcclChoice choice) const;
  [[nodiscard]] double MessageSeconds(graph::CollectiveKind kind,
                                      const CommTopology& topology) const;
  [[nodiscard]] double RingBandwidth(double bandwidth,
                                     const CommTopology& topology,
                                     NcclProtocol protocol) const;
  [[nodiscard]] double TreeBandwidth(double bandwidth,
                                     const CommTopology& topology,
                                     NcclProtocol protocol) const;
  [[nodiscard]] double PassesSeconds(const graph::CollectiveShape& shape,
                                     const CommTopology& topology,
                                     NcclProtocol protocol) const;
  [[nodiscard]] double RingTrafficSeconds(const graph::CollectiveShape& shape,
                                          const CommTopology& topology,
                                          NcclProtocol protocol) const;
  [[nodiscard]] double TreeTrafficSeconds(const graph::CollectiveShape& shape,
                                          const CommTopology& topology,
                                          NcclProtocol protocol) const;
  [[nodiscard]] double AllToAllNetworkSeconds(const graph::CollectiveShape& shape,
                                              const CommTopology& topology) const;
  [[nodiscard]] double PeerRoundsSeconds(double peers) const;
  [[nodiscard]] double AllToAllSeconds(const graph::CollectiveShape& shape,
                                       const CommTopology& topology) const;
  [[nodiscard]] double LinkBandwidth(const CommTopology& topology) const;
  [[nodiscard]] double NetworkBandwidth(const CommTopology& topology) const;
  [[nodiscard]] double PassingBandwidth(const CommTopology& topology) const;
  [[nodiscard]] double LatencySeconds(const graph::CollectiveShape& shape,
                                      const CommTopology& topology,
                                      NcclChoice choice) const;

  NcclArchitecture architecture_ = NcclArchitecture::kHopper;
  int32_t release_ = kNewestNccl;
  double channels_ = 1;
  double launch_ = 0;  // seconds
  double ramp_ = 0;    // ratio
  double nvlink_ = 0;  // one GPU, one direction, nominal; 0: PCIe only
  double pcie_ = 0;    // one GPU, one direction, nominal
  double ring_efficiency_ = 0;
  double ring_local_ = 1;  // byte/s
  double nvls_efficiency_ = 0;
  double peer_bandwidth_ = 0;  // achieved by send and receive inside a node
  double nic_ = 0;             // nominal, one NIC
  double nic_efficiency_ = 0;
  double crossed_nic_factor_ = 1;
  double nics_per_node_ = 1;
  double gpus_per_node_ = 1;
  double hop_ = 0;      // seconds
  double message_ = 0;  // seconds
  double loss_per_doubling_ = 0;
  double p2p_base_ = 0;  // seconds
  bool cube_mesh_ = false;
  bool in_network_ = false;
  bool ll128_ = true;
  int64_t eager_bytes_ = 0;
};

}  // namespace prism::replayer
