#include "replayer/cost/collective_cost.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace prism::replayer {
namespace {

using graph::CollectiveKind;

// Bandwidth of a GPU's NVLinks as NCCL's topology search counts it, over nominal: 20, 20, 20.6 and
// 40.1 GB/s a link of 25, 25, 25 and 50 (NCCL 2.30.7 src/graph/topo.h).
constexpr std::array<double, 4> kSearchedNvlink = {0.8, 0.8, 0.824, 0.802};
// Likewise a NIC: 12 GB/s for each 100 Gb/s.
constexpr double kSearchedNic = 0.96;

constexpr double kLinksOfV100 = 6;
// Edge-disjoint NVLink rings through the first n GPUs of a hybrid cube mesh (DGX-1V): two
// quads with 1, 1, 2 links between their members and two links to the twin in the other quad. The
// fifth GPU has no second NVLink neighbour, so its two rings pass one hop through GPU 0 twice, at
// 18 instead of 22 GB/s.
constexpr std::array<double, 9> kCubeMeshRings = {1, 1, 1, 2, 4, 1.65, 2, 4, 6};

constexpr double kRampUnit = 1 << 20U;  // bytes

bool MadeOfPeers(CollectiveKind kind) {
  return kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kGather ||
         kind == CollectiveKind::kScatter;
}

bool IsChain(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
}

}  // namespace

CommTopology TopologyOf(std::span<const uint32_t> members, int32_t gpus_per_node) {
  CommTopology topology;
  topology.size = static_cast<int32_t>(members.size());
  topology.nodes = 0;
  int32_t on_node = 0;
  int64_t node = -1;
  for (uint32_t member : members) {
    int64_t its_node = member / static_cast<uint32_t>(gpus_per_node);
    if (its_node != node) {
      node = its_node;
      ++topology.nodes;
      on_node = 0;
    }
    topology.ranks_per_node = std::max(topology.ranks_per_node, ++on_node);
  }
  return topology;
}

CollectiveCost::CollectiveCost(const graph::ClusterSpec& cluster)
    : architecture_(ArchitectureOf(cluster.gpu.compute_major)),
      gpus_per_node_(cluster.gpus_per_node) {
  const graph::ParameterTable& table = cluster.parameters;
  channels_ = table.Value("nccl.channels.collective");
  launch_ = table.Value("nccl.launch_ns") * 1e-9;
  ramp_ = table.Value("nccl.ramp");
  ring_efficiency_ = table.Value("nccl.ring_efficiency");
  nvls_efficiency_ = table.Value("nccl.nvls_efficiency");
  nvlink_ = table.Value("net.nvlink_bytes_per_s");
  pcie_ = table.Value("net.pcie_bytes_per_s");
  peer_bandwidth_ = (nvlink_ > 0 ? nvlink_ : pcie_) * table.Value("net.nvlink_efficiency");
  cube_mesh_ = table.Value("net.cube_mesh") != 0;
  nic_ = table.Value("net.nic_bytes_per_s");
  nic_efficiency_ = table.Value("net.nic_efficiency");
  nics_per_node_ = table.Value("net.nics_per_node");
  hop_ = table.Value("net.hop_ns") * 1e-9;
  loss_per_doubling_ = table.Value("net.bandwidth_loss_per_doubling");
  in_network_ = table.Value("net.in_network_reduction") != 0;
  p2p_base_ = table.Value("p2p.base_ns") * 1e-9;
  eager_bytes_ = static_cast<int64_t>(table.Value("p2p.eager_bytes"));
}

// Bytes per second between the nodes of a communicator. The GPUs of a node share its NICs, and all
// of them communicate at the same time (each tp rank has its own dp group), so a communicator gets
// the NICs in proportion to the GPUs it holds.
double CollectiveCost::NetworkBandwidth(const CommTopology& topology) const {
  double nics = topology.ranks_per_node * nics_per_node_ / gpus_per_node_;
  double doublings = std::log2(static_cast<double>(topology.nodes));
  return nic_ * nic_efficiency_ * nics * std::pow(1 + loss_per_doubling_, -doublings);
}

double CollectiveCost::RingBandwidth(const CommTopology& topology) const {
  double links = nvlink_ > 0 ? nvlink_ : pcie_;
  if (cube_mesh_) {
    int members = std::clamp(topology.ranks_per_node, 0, 8);
    links = nvlink_ / kLinksOfV100 * kCubeMeshRings[static_cast<size_t>(members)];
  }
  double intra = links * ring_efficiency_;
  if (topology.nodes == 1) {
    return intra;
  }
  double network = NetworkBandwidth(topology);
  return topology.ranks_per_node == 1 ? network : std::min(intra, network);
}

NcclFabric CollectiveCost::FabricOf(const CommTopology& topology) const {
  NcclFabric fabric;
  fabric.architecture = architecture_;
  fabric.size = topology.size;
  fabric.nodes = topology.nodes;
  fabric.ranks_per_node = topology.ranks_per_node;
  fabric.channels = channels_;
  fabric.intra_bandwidth =
      nvlink_ > 0 ? nvlink_ * kSearchedNvlink[static_cast<size_t>(architecture_)] : pcie_;
  fabric.inter_bandwidth =
      nic_ * kSearchedNic * topology.ranks_per_node * nics_per_node_ / gpus_per_node_;
  if (topology.ranks_per_node == 1 && topology.nodes > 1) {
    fabric.intra_bandwidth = fabric.inter_bandwidth;
  }
  fabric.hop_seconds = hop_;
  fabric.nvlink = nvlink_ > 0;
  fabric.nvls = nvls_efficiency_ > 0;
  fabric.in_network = in_network_;
  return fabric;
}

double CollectiveCost::RingTrafficSeconds(const graph::CollectiveShape& shape,
                                          const CommTopology& topology,
                                          NcclProtocol protocol) const {
  double bandwidth = RingBandwidth(topology);
  if (protocol == NcclProtocol::kLl) {
    bandwidth = std::min(bandwidth * kRingLlFactor, LlBandwidthCap(FabricOf(topology)));
  } else if (protocol == NcclProtocol::kLl128) {
    bandwidth *= kRingLl128Factor;
  }
  // A pipelined chain moves every byte once over each link.
  double share = IsChain(shape.kind) ? 1 : RingSteps(shape.kind, topology.size) / topology.size;
  return static_cast<double>(shape.bytes) * share / bandwidth;
}

// Up and down: each byte passes a GPU's links twice in one direction, and a node's NICs twice (two
// complementary trees: a node is inner in one, leaf in the other), once where there are two nodes.
double CollectiveCost::TreeTrafficSeconds(const graph::CollectiveShape& shape,
                                          const CommTopology& topology,
                                          NcclProtocol protocol) const {
  double intra = nvlink_ > 0 ? nvlink_ : pcie_;
  double bandwidth = intra * ring_efficiency_ / 2;
  if (topology.nodes > 1) {
    double network = NetworkBandwidth(topology) / (topology.nodes == 2 ? 1 : 2);
    bandwidth = topology.ranks_per_node == 1 ? network : std::min(bandwidth, network);
  }
  bandwidth *= kTreeFactor;
  if (protocol == NcclProtocol::kLl) {
    bandwidth = std::min(bandwidth * kTreeLlFactor, LlBandwidthCap(FabricOf(topology)) / 2);
  } else if (protocol == NcclProtocol::kLl128) {
    bandwidth *= kRingLl128Factor;
  }
  return static_cast<double>(shape.bytes) / (bandwidth * TreeCorrection(protocol, shape.bytes));
}

double CollectiveCost::TrafficSeconds(const graph::CollectiveShape& shape,
                                      const CommTopology& topology,
                                      NcclChoice choice) const {
  const auto bytes = static_cast<double>(shape.bytes);
  const bool all_reduce = shape.kind == CollectiveKind::kAllReduce;
  const double local = topology.ranks_per_node;
  // The switch gathers a GPU's share from all and spreads its result to all: bytes for the others,
  // one share for itself. All_gather and reduce_scatter do one of the two.
  double switched = bytes * (all_reduce ? 1 + 1 / local : 1) / (nvlink_ * nvls_efficiency_);
  switch (choice.algorithm) {
    case NcclAlgorithm::kRing:
      return RingTrafficSeconds(shape, topology, choice.protocol);
    case NcclAlgorithm::kTree:
      return TreeTrafficSeconds(shape, topology, choice.protocol);
    case NcclAlgorithm::kNvls:
      return switched;
    case NcclAlgorithm::kNvlsTree:
      return std::max(switched, bytes * (topology.nodes == 2 ? 1 : 2) / NetworkBandwidth(topology));
    case NcclAlgorithm::kCollNet: {
      double inside = nvls_efficiency_ > 0 ? switched : 2 * bytes / (nvlink_ * ring_efficiency_);
      return std::max(inside, bytes / NetworkBandwidth(topology));
    }
  }
  return 0;
}

double CollectiveCost::RampSeconds(double latency, int64_t bytes) const {
  return latency * (1 + ramp_ * std::log2(1 + static_cast<double>(bytes) / kRampUnit));
}

double CollectiveCost::Seconds(const graph::CollectiveShape& shape,
                               const CommTopology& topology,
                               NcclChoice choice) const {
  if (topology.size == 1) {
    return launch_;  // a copy or nothing; NCCL still launches
  }
  double latency = NcclTuner(FabricOf(topology)).LatencySeconds(shape.kind, choice);
  if (choice.protocol == NcclProtocol::kSimple) {
    latency = RampSeconds(latency, shape.bytes);
  }
  return launch_ + latency + TrafficSeconds(shape, topology, choice);
}

double CollectiveCost::AllToAllSeconds(const graph::CollectiveShape& shape,
                                       const CommTopology& topology) const {
  double n = topology.size;
  double per_peer = static_cast<double>(shape.bytes) / n;
  double intra_peers = topology.ranks_per_node - 1.0;
  double inter_peers = n - topology.ranks_per_node;
  double intra = intra_peers * per_peer / peer_bandwidth_;
  // Every rank of the node sends at once and they share its NICs.
  double network = topology.nodes > 1 ? NetworkBandwidth(topology) / topology.ranks_per_node : 1;
  double inter = inter_peers * per_peer / network;
  return p2p_base_ + (topology.nodes > 1 ? hop_ : 0) + std::max(intra, inter);
}

std::optional<NcclChoice> CollectiveCost::Choose(const graph::CollectiveShape& shape,
                                                 const CommTopology& topology) const {
  if (MadeOfPeers(shape.kind) || topology.size == 1) {
    return std::nullopt;
  }
  return NcclTuner(FabricOf(topology)).Choose(shape.kind, shape.bytes);
}

DurationNs CollectiveCost::Collective(const graph::CollectiveShape& shape,
                                      const CommTopology& topology) const {
  double seconds = MadeOfPeers(shape.kind)
                       ? AllToAllSeconds(shape, topology)
                       : Seconds(shape, topology, Choose(shape, topology).value_or(NcclChoice()));
  return NsFromSeconds(seconds * topology.slow_factor);
}

DurationNs CollectiveCost::PeerTransfer(int64_t bytes, bool same_node) const {
  double latency = p2p_base_ + (same_node ? 0 : hop_);
  double bandwidth =
      same_node ? peer_bandwidth_ : nic_ * nic_efficiency_ * nics_per_node_ / gpus_per_node_;
  return NsFromSeconds(latency + static_cast<double>(bytes) / bandwidth);
}

}  // namespace prism::replayer
