#include "replayer/cost/collective_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "graph/program/collective_kinds.h"

namespace prism::replayer {
namespace {

using graph::CollectiveKind;

// Bandwidth of a GPU's NVLinks as NCCL's topology search counts it, relative to nominal: 20, 20,
// 20.6 and 40.1 GB/s per link of 25, 25, 25 and 50 (NCCL 2.30.7 src/graph/topo.h).
constexpr std::array<double, 4> kSearchedNvlink = {0.8, 0.8, 0.824, 0.802};
// The same for a NIC: 12 GB/s per 100 Gb/s.
constexpr double kSearchedNic = 0.96;

constexpr double kLinksOfV100 = 6;
// Edge-disjoint NVLink rings through the first n GPUs of a hybrid cube mesh (DGX-1V): two quads
// with 1, 1, 2 links between their members and two links to the counterpart in the other quad. The
// fifth GPU has no second NVLink neighbour, so its two rings pass one hop through GPU 0 twice, at
// 18 instead of 22 GB/s. Four rings in a quad share their double links and lose 5%.
constexpr std::array<double, 9> kCubeMeshRings = {1, 1, 1, 2, 3.8, 1.65, 2, 3.8, 6};

// Half of the ramp is reached at this size: chunks stop growing somewhat above it (published sweeps
// of NVLSTree on 32 to 8,192 H100).
constexpr double kRampHalf = 7 * (1 << 20U);  // bytes

// NVLS inside a node by published curves on H100, H200 and B200, by architecture (the tuner has 25
// us). Through a switch it takes this much longer per doubling of the message beyond a size, as
// does a ring with Simple (curves of 2 to 8 A100 up to 1 GiB).
constexpr std::array<double, 4> kNvlsLatency = {0, 0, 14e-6, 35e-6};
constexpr double kNvlsRamp = 11e-6;
constexpr double kNvlsRampUnit = 1 << 20U;  // bytes
constexpr double kRingRamp = 15e-6;
constexpr double kRingRampUnit = 16 << 20U;  // bytes

// LL128 carries 120 bytes of data in each 128. With it a ring stays below this bandwidth, by
// architecture, and on Volta a step takes this much longer than in the tuner (published curves of 4
// to 8 V100 from 1 to 8 MiB, of A100 up to 16 MiB; none of later GPUs).
constexpr double kLl128Payload = 120.0 / 128;
constexpr std::array<double, 4> kLl128Cap = {80e9, 215e9, 1e18, 1e18};  // byte/s
constexpr double kLl128StepOfVolta = 0.8e-6;

// The 640 threads of a channel move 60 bytes each at a time with LL128, and before 2.20 curves of 3
// to 8 A100 are flat up to about 4 MiB, as if no channel got less: small messages leave channels
// idle. Rate of a channel, and how much shorter a step is than in the tuner's rings (a tree's).
constexpr double kLl128Pass = 640 * 60;                     // bytes
constexpr double kLl128ChannelOfAmpere = 14e9;              // byte/s
constexpr double kLl128StepOfAmpere = (1.9 - 1.25) * 1e-6;  // seconds
constexpr int32_t kFinerChunks = 220;                       // NcclFabric::release

// How much longer a step of LL takes for each doubling of the message from `unit` bytes up to
// `last` (published curves of 4 to 8 A100 from 32 KiB to 1 MiB, of 8 H100 from 8 B on).
struct LlRamp {
  double seconds;
  double unit;
  double last;
};
constexpr std::array<LlRamp, 4> kLlRamp = {
    {{0.35e-6, 65536, 1e9}, {0.35e-6, 65536, 1e9}, {0.032e-6, 64, 4096}, {0.032e-6, 64, 4096}}};

// Above about this size a message leaves the network's inline path, and what the network adds to a
// step grows by half (published curves over EFA; InfiniBand adds nothing anyway). For Simple the
// tuner already counts it twice.
constexpr double kInlineBytes = 20 << 10U;

// Seconds that a channel takes for a peer in another node: a step of LL over the network in NCCL's
// tuner (nccl_tuning_constants.csv).
constexpr double kPeerRound = 2.7e-6;

bool MadeOfPeers(CollectiveKind kind) {
  return kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kGather ||
         kind == CollectiveKind::kScatter;
}

}  // namespace

double SlowFactor(CollectiveKind kind, const CommTopology& topology) {
  return MadeOfPeers(kind) ? topology.pair_factor : topology.slow_factor;
}

CommTopology TopologyOf(std::span<const uint32_t> members, int32_t gpus_per_node) {
  CommTopology topology;
  topology.size = static_cast<int32_t>(members.size());
  topology.nodes = 0;
  auto fewest = static_cast<int32_t>(members.size());
  for (size_t begin = 0; begin < members.size();) {
    const auto node_of = [&](size_t i) {
      return members[i] / static_cast<uint32_t>(gpus_per_node);
    };
    size_t end = begin + 1;
    while (end < members.size() && node_of(end) == node_of(begin)) {
      ++end;
    }
    const auto on_node = static_cast<int32_t>(end - begin);
    ++topology.nodes;
    topology.ranks_per_node = std::max(topology.ranks_per_node, on_node);
    fewest = std::min(fewest, on_node);
    begin = end;
  }
  topology.missing = members.empty() ? 0 : topology.ranks_per_node - fewest;
  return topology;
}

CollectiveCost::CollectiveCost(const graph::ClusterSpec& cluster)
    : architecture_(ArchitectureOf(cluster.gpu.compute_major)),
      gpus_per_node_(cluster.gpus_per_node) {
  const graph::ParameterTable& table = cluster.parameters;
  release_ = static_cast<int32_t>(table.Value("nccl.release"));
  channels_ = table.Value("nccl.channels.collective");
  launch_ = table.Value("nccl.launch_ns") * 1e-9;
  ramp_ = table.Value("nccl.ramp");
  ring_efficiency_ = table.Value("nccl.ring_efficiency");
  ring_local_ = table.Value("nccl.ring_local_bytes_per_s");
  nvls_efficiency_ = table.Value("nccl.nvls_efficiency");
  nvlink_ = table.Value("net.nvlink_bytes_per_s");
  pcie_ = table.Value("net.pcie_bytes_per_s");
  peer_bandwidth_ = (nvlink_ > 0 ? nvlink_ : pcie_) * table.Value("net.nvlink_efficiency");
  cube_mesh_ = table.Value("net.cube_mesh") != 0;
  nic_ = table.Value("net.nic_bytes_per_s");
  nic_efficiency_ = table.Value("net.nic_efficiency");
  nics_per_node_ = table.Value("net.nics_per_node");
  if (nics_per_node_ < gpus_per_node_) {
    nic_efficiency_ *= table.Value("net.shared_nic_factor");
  }
  crossed_nic_factor_ = table.Value("net.crossed_nic_factor");
  hop_ = table.Value("net.hop_ns") * 1e-9;
  message_ = table.Value("net.message_ns") * 1e-9;
  loss_per_doubling_ = table.Value("net.bandwidth_loss_per_doubling");
  ll128_ = table.Value("net.ll128") != 0;
  in_network_ = table.Value("net.in_network_reduction") != 0;
  p2p_base_ = table.Value("p2p.base_ns") * 1e-9;
  eager_bytes_ = static_cast<int64_t>(table.Value("p2p.eager_bytes"));
}

// Bytes per second between the nodes of a communicator. The GPUs of a node share its NICs, and all
// of them communicate at the same time (each tp rank has its own dp group), so a communicator gets
// the NICs in proportion to the GPUs it holds. If nodes differ, the one with the fewest delays the
// rest: each carries as many bytes.
double CollectiveCost::NetworkBandwidth(const CommTopology& topology) const {
  double nics = topology.fewest_per_node() * nics_per_node_ / gpus_per_node_;
  double doublings = std::log2(static_cast<double>(topology.nodes));
  return nic_ * nic_efficiency_ * nics * std::pow(1 + loss_per_doubling_, -doublings);
}

// The same for rings and trees, which enter and leave a node by the same NIC: if no two of their
// GPUs are below one PCIe switch, one of the two ends must cross the host to reach it.
double CollectiveCost::PassingBandwidth(const CommTopology& topology) const {
  constexpr int32_t kGpusOfSwitch = 2;
  const int32_t ranks = topology.fewest_per_node();
  const bool crosses = ranks > 1 && ranks * kGpusOfSwitch <= gpus_per_node_;
  return NetworkBandwidth(topology) * (crosses ? crossed_nic_factor_ : 1);
}

// The bandwidth that a ring inside a node gets from the links of one GPU.
double CollectiveCost::LinkBandwidth(const CommTopology& topology) const {
  double links = nvlink_ > 0 ? nvlink_ : pcie_;
  if (cube_mesh_) {
    const int members = std::clamp(topology.ranks_per_node, 0, 8);
    links = nvlink_ / kLinksOfV100 * kCubeMeshRings[static_cast<size_t>(members)];
  }
  return links * ring_efficiency_;
}

NcclFabric CollectiveCost::FabricOf(const CommTopology& topology) const {
  NcclFabric fabric;
  fabric.architecture = architecture_;
  fabric.release = release_;
  fabric.size = topology.size;
  fabric.nodes = topology.nodes;
  fabric.ranks_per_node = topology.ranks_per_node;
  fabric.fewest_per_node = topology.fewest_per_node();
  fabric.channels = channels_;
  fabric.intra_bandwidth =
      nvlink_ > 0 ? nvlink_ * kSearchedNvlink[static_cast<size_t>(architecture_)] : pcie_;
  fabric.inter_bandwidth =
      nic_ * kSearchedNic * topology.fewest_per_node() * nics_per_node_ / gpus_per_node_;
  if (topology.ranks_per_node == 1 && topology.nodes > 1) {
    fabric.intra_bandwidth = fabric.inter_bandwidth;
  }
  fabric.hop_seconds = hop_;
  fabric.nvlink = nvlink_ > 0;
  fabric.nvls = nvls_efficiency_ > 0;
  fabric.in_network = in_network_;
  fabric.ll128 = ll128_;
  return fabric;
}

// A ring's bandwidth under a protocol.
double CollectiveCost::RingBandwidth(double bandwidth,
                                     const CommTopology& topology,
                                     NcclProtocol protocol) const {
  if (protocol == NcclProtocol::kLl) {
    return std::min(bandwidth * kRingLlFactor, LlBandwidthCap(FabricOf(topology)));
  }
  if (protocol == NcclProtocol::kLl128) {
    return std::min(bandwidth * kLl128Payload, kLl128Cap[static_cast<size_t>(architecture_)]);
  }
  return bandwidth;
}

// Likewise of a tree's.
double CollectiveCost::TreeBandwidth(double bandwidth,
                                     const CommTopology& topology,
                                     NcclProtocol protocol) const {
  if (protocol == NcclProtocol::kLl) {
    return std::min(bandwidth * kRingLlFactor, LlBandwidthCap(FabricOf(topology)) / 2);
  }
  return protocol == NcclProtocol::kLl128 ? bandwidth * kLl128Payload : bandwidth;
}

double RingTraffic(const graph::CollectiveShape& shape, int32_t size) {
  const bool chain = graph::IsChain(shape.kind);
  return static_cast<double>(shape.bytes) * (chain ? 1 : RingSteps(shape.kind, size) / size);
}

double CollectiveCost::PassesSeconds(const graph::CollectiveShape& shape,
                                     const CommTopology& topology,
                                     NcclProtocol protocol) const {
  if (protocol != NcclProtocol::kLl128 || architecture_ != NcclArchitecture::kAmpere ||
      release_ >= kFinerChunks || topology.nodes > 1 || graph::IsChain(shape.kind)) {
    return 0;
  }
  const auto bytes = static_cast<double>(shape.bytes);
  const double passes = std::ceil(bytes / (channels_ * topology.size * kLl128Pass));
  return RingSteps(shape.kind, topology.size) * passes * kLl128Pass / kLl128ChannelOfAmpere;
}

// The links of a GPU, including its own pass over the data, and the NICs of its node work at the
// same time: the slower of the two decides.
double CollectiveCost::RingTrafficSeconds(const graph::CollectiveShape& shape,
                                          const CommTopology& topology,
                                          NcclProtocol protocol) const {
  const auto bytes = static_cast<double>(shape.bytes);
  const bool grows = nvlink_ > 0 && !cube_mesh_ && protocol == NcclProtocol::kSimple;
  const double own =
      bytes / ring_local_ + (grows ? kRingRamp * std::log2(1 + bytes / kRingRampUnit) : 0);
  double seconds = PassesSeconds(shape, topology, protocol);
  if (topology.nodes == 1 || topology.ranks_per_node > 1) {
    const double links = RingBandwidth(LinkBandwidth(topology), topology, protocol);
    seconds = std::max(seconds, RingTraffic(shape, topology.size) / links + own);
  }
  const NcclChoice ring = {NcclAlgorithm::kRing, protocol};
  return topology.nodes > 1 ? std::max(seconds, NetworkSeconds(shape, topology, ring)) : seconds;
}

// How long the NICs are busy.
double CollectiveCost::NetworkSeconds(const graph::CollectiveShape& shape,
                                      const CommTopology& topology,
                                      NcclChoice choice) const {
  const double bandwidth = PassingBandwidth(topology);
  const auto bytes = static_cast<double>(shape.bytes);
  const double passes = topology.nodes == 2 ? 1 : 2;
  switch (choice.algorithm) {
    case NcclAlgorithm::kRing:
      return RingTraffic(shape, topology.size) /
             RingBandwidth(bandwidth, topology, choice.protocol);
    case NcclAlgorithm::kTree:
      return bytes / TreeBandwidth(bandwidth / passes, topology, choice.protocol);
    case NcclAlgorithm::kNvlsTree:
      return bytes * passes / bandwidth;
    case NcclAlgorithm::kCollNet:
      return bytes / bandwidth;
    case NcclAlgorithm::kNvls:
      break;  // inside a node
  }
  return 0;
}

// Up and down: each byte passes a GPU's links twice in one direction, and a node's NICs twice (two
// complementary trees: a node is inner in one, leaf in the other), once with two nodes.
double CollectiveCost::TreeTrafficSeconds(const graph::CollectiveShape& shape,
                                          const CommTopology& topology,
                                          NcclProtocol protocol) const {
  double intra = nvlink_ > 0 ? nvlink_ : pcie_;
  double bandwidth = intra * ring_efficiency_ / 2;
  if (topology.nodes > 1) {
    double network = PassingBandwidth(topology) / (topology.nodes == 2 ? 1 : 2);
    bandwidth = topology.ranks_per_node == 1 ? network : std::min(bandwidth, network);
  }
  return static_cast<double>(shape.bytes) / TreeBandwidth(bandwidth, topology, protocol);
}

double CollectiveCost::TrafficSeconds(const graph::CollectiveShape& shape,
                                      const CommTopology& topology,
                                      NcclChoice choice) const {
  const auto bytes = static_cast<double>(shape.bytes);
  const bool all_reduce = shape.kind == CollectiveKind::kAllReduce;
  const double local = topology.ranks_per_node;
  // The switch gathers a GPU's share from all and distributes its result to all: bytes for the
  // others, one share for itself. All_gather and reduce_scatter do one of the two.
  double switched = bytes * (all_reduce ? 1 + 1 / local : 1) / (nvlink_ * nvls_efficiency_);
  switch (choice.algorithm) {
    case NcclAlgorithm::kRing:
      return RingTrafficSeconds(shape, topology, choice.protocol);
    case NcclAlgorithm::kTree:
      return TreeTrafficSeconds(shape, topology, choice.protocol);
    case NcclAlgorithm::kNvls:
      return switched;
    case NcclAlgorithm::kNvlsTree:
      return std::max(switched, NetworkSeconds(shape, topology, choice));
    case NcclAlgorithm::kCollNet: {
      double inside = nvls_efficiency_ > 0 ? switched : 2 * bytes / (nvlink_ * ring_efficiency_);
      return std::max(inside, NetworkSeconds(shape, topology, choice));
    }
  }
  return 0;
}

// The time of a first chunk. The ring's constants are for all its steps in sequence; how much a
// larger chunk delays the rest depends on one path across the nodes, which the tree's constants
// represent.
double CollectiveCost::LatencySeconds(const graph::CollectiveShape& shape,
                                      const CommTopology& topology,
                                      NcclChoice choice) const {
  const auto bytes = static_cast<double>(shape.bytes);
  if (choice.algorithm == NcclAlgorithm::kNvls) {
    return kNvlsLatency[static_cast<size_t>(architecture_)] +
           kNvlsRamp * std::log2(1 + bytes / kNvlsRampUnit);
  }
  NcclFabric fabric = FabricOf(topology);
  fabric.release = kNewestNccl;  // step times do not depend on the release that decides
  if (choice.protocol != NcclProtocol::kSimple) {
    fabric.hop_seconds *= 1 + bytes / (bytes + kInlineBytes) / 2;
  }
  const NcclTuner tuner(fabric);
  const double latency = tuner.LatencySeconds(shape.kind, choice);
  if (choice.protocol == NcclProtocol::kLl) {
    const bool ring = choice.algorithm == NcclAlgorithm::kRing;
    const bool one_step = graph::IsChain(shape.kind) && topology.nodes == 1;
    const double steps = one_step ? 1
                         : ring   ? RingSteps(shape.kind, topology.size)
                                  : 2 * (topology.ranks_per_node - 1 + std::log2(topology.nodes));
    const LlRamp& ramp = kLlRamp[static_cast<size_t>(architecture_)];
    return latency + steps * ramp.seconds * std::log2(1 + std::min(bytes, ramp.last) / ramp.unit);
  }
  const bool switched = topology.nodes == 1 && nvlink_ > 0 && !cube_mesh_;
  if (choice.algorithm == NcclAlgorithm::kRing && switched) {
    const bool passes = PassesSeconds(shape, topology, choice.protocol) > 0;
    return latency - (passes ? RingSteps(shape.kind, topology.size) * kLl128StepOfAmpere : 0);
  }
  double first = latency;
  if (choice.protocol == NcclProtocol::kLl128 && architecture_ == NcclArchitecture::kVolta) {
    first += RingSteps(shape.kind, topology.size) * kLl128StepOfVolta;
  }
  double ramped = first;
  if (choice.algorithm == NcclAlgorithm::kRing && topology.nodes > 1) {
    ramped = std::min(latency, tuner.LatencySeconds(CollectiveKind::kAllReduce,
                                                    {NcclAlgorithm::kTree, choice.protocol}));
  }
  const double growth = std::pow(bytes / kRampHalf, 1.5);
  return first + ramp_ * ramped * growth / (1 + growth);
}

// The cost of a ring's messages beyond their bytes. Over two nodes each step of the ring waits for
// the one before; over more, steps overlap: in published runs on 2 to 64 nodes a doubling of the
// nodes adds as much as the first node does, at any number of ranks on each.
double CollectiveCost::MessageSeconds(CollectiveKind kind, const CommTopology& topology) const {
  const double rounds = RingSteps(kind, topology.size) / (topology.size - 1.0);
  return message_ * rounds * gpus_per_node_ * (1 + std::log2(topology.nodes));
}

double CollectiveCost::Seconds(const graph::CollectiveShape& shape,
                               const CommTopology& topology,
                               NcclChoice choice) const {
  if (topology.size == 1) {
    return launch_;  // a copy or nothing; NCCL still launches
  }
  const bool messages = choice.algorithm == NcclAlgorithm::kRing && topology.nodes > 1;
  const double overhead = messages ? MessageSeconds(shape.kind, topology) : 0;
  return launch_ + overhead + LatencySeconds(shape, topology, choice) +
         TrafficSeconds(shape, topology, choice);
}

NetworkShare CollectiveCost::ShareOf(const graph::CollectiveShape& shape,
                                     const CommTopology& topology) const {
  NetworkShare share;
  if (topology.nodes == 1) {
    share.fixed = SecondsFromNs(Collective(shape, topology));
    return share;
  }
  if (MadeOfPeers(shape.kind)) {
    share.network = AllToAllNetworkSeconds(shape, topology);
    share.fixed = p2p_base_ + hop_;
  } else {
    const NcclChoice choice = Choose(shape, topology, topology.algorithm).value_or(NcclChoice());
    share.network = NetworkSeconds(shape, topology, choice);
    share.fixed = Seconds(shape, topology, choice) - TrafficSeconds(shape, topology, choice);
  }
  share.network *= SlowFactor(shape.kind, topology);
  share.fixed *= SlowFactor(shape.kind, topology);
  return share;
}

NetworkShare CollectiveCost::ShareOfPeer(int64_t bytes) const {
  const double bandwidth = nic_ * nic_efficiency_ * nics_per_node_ / gpus_per_node_;
  return {static_cast<double>(bytes) / bandwidth, p2p_base_ + hop_};
}

// All ranks of the node send at once and share its NICs. Peers in the same node do not relieve
// them: the rounds they take leave the network idle (vendor's peaks of 32 GPUs).
double CollectiveCost::AllToAllNetworkSeconds(const graph::CollectiveShape& shape,
                                              const CommTopology& topology) const {
  const double n = topology.size;
  return (n - 1) * (static_cast<double>(shape.bytes) / n) /
         (NetworkBandwidth(topology) / topology.fewest_per_node());
}

// A channel sends to its peers in other nodes one after the other; the first is included in the
// base latency.
double CollectiveCost::PeerRoundsSeconds(double peers) const {
  return std::max(0.0, peers - channels_) / channels_ * kPeerRound;
}

double CollectiveCost::AllToAllSeconds(const graph::CollectiveShape& shape,
                                       const CommTopology& topology) const {
  double n = topology.size;
  double per_peer = static_cast<double>(shape.bytes) / n;
  double intra_peers = topology.ranks_per_node - 1.0;
  double intra = intra_peers * per_peer / peer_bandwidth_;
  double inter = topology.nodes > 1 ? AllToAllNetworkSeconds(shape, topology) : 0;
  return p2p_base_ + (topology.nodes > 1 ? hop_ : 0) +
         PeerRoundsSeconds(n - topology.ranks_per_node) + std::max(intra, inter);
}

std::optional<NcclChoice> CollectiveCost::Choose(const graph::CollectiveShape& shape,
                                                 const CommTopology& topology,
                                                 std::optional<NcclAlgorithm> only) const {
  if (MadeOfPeers(shape.kind) || topology.size == 1) {
    return std::nullopt;
  }
  return NcclTuner(FabricOf(topology)).Choose(shape.kind, shape.bytes, only);
}

DurationNs CollectiveCost::Collective(const graph::CollectiveShape& shape,
                                      const CommTopology& topology) const {
  double seconds =
      MadeOfPeers(shape.kind)
          ? AllToAllSeconds(shape, topology)
          : Seconds(shape, topology,
                    Choose(shape, topology, topology.algorithm).value_or(NcclChoice()));
  return NsFromSeconds(seconds * SlowFactor(shape.kind, topology));
}

DurationNs CollectiveCost::PeerTransfer(int64_t bytes, bool same_node) const {
  if (!same_node) {
    const NetworkShare share = ShareOfPeer(bytes);
    return NsFromSeconds(share.fixed + share.network);
  }
  return NsFromSeconds(p2p_base_ + static_cast<double>(bytes) / peer_bandwidth_);
}

std::vector<DurationNs> CollectiveCost::PeerTransfers(std::span<const PeerLoad> group) const {
  using Reach = PeerLoad::Reach;
  std::vector<DurationNs> durations(group.size());
  // Longest first: those before a transfer have at least its bytes, those after it at most.
  std::vector<uint32_t> order(group.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order,
                           [&](uint32_t a, uint32_t b) { return group[a].bytes > group[b].bytes; });
  for (const bool is_send : {true, false}) {
    for (const Reach reach : {Reach::kNode, Reach::kNetwork}) {
      const auto shares = [&](const PeerLoad& load) {
        return load.is_send == is_send &&
               (load.reach == reach || (reach == Reach::kNetwork && load.reach == Reach::kNode));
      };
      int64_t shorter = 0;  // bytes of those after
      double peers = 0;
      for (const PeerLoad& load : group) {
        shorter += shares(load) ? load.bytes : 0;
        peers += load.is_send == is_send && load.reach == Reach::kNetwork ? 1 : 0;
      }
      const double rounds = reach == Reach::kNetwork ? PeerRoundsSeconds(peers) : 0;
      int64_t longer = 0;  // count of those before
      for (const uint32_t i : order) {
        if (!shares(group[i])) {
          continue;
        }
        if (group[i].reach == reach) {
          durations[i] = PeerTransfer(shorter + longer * group[i].bytes, reach == Reach::kNode) +
                         NsFromSeconds(rounds);
        }
        shorter -= group[i].bytes;
        ++longer;
      }
    }
  }
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i].reach == Reach::kSelf) {
      durations[i] = PeerTransfer(group[i].bytes, true);
    }
  }
  return durations;
}

}  // namespace prism::replayer
