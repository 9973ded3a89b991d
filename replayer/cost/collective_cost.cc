#include "replayer/cost/collective_cost.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace prism::replayer {
namespace {

constexpr int kLl = 0;
constexpr int kLl128 = 1;
constexpr int kSimple = 2;

constexpr const char* kProtocolNames[] = {"ll", "ll128", "simple"};

// How far the tree falls short of its bandwidth by message size: entry i is for about 64 · 2^i
// bytes (treeCorrectionFactor in NCCL 2.30.7, src/graph/tuning.cc).
constexpr double kTreeCorrection[][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

double TreeCorrection(int protocol, int64_t bytes) {
  int entry = bytes < 64 ? 0 : static_cast<int>(std::log2(static_cast<double>(bytes) / 64));
  return entry < 24 ? kTreeCorrection[protocol][entry] : 1;
}

bool IsReduceOrBroadcast(graph::CollectiveKind kind) {
  return kind == graph::CollectiveKind::kBroadcast || kind == graph::CollectiveKind::kReduce;
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

CollectiveCost::CollectiveCost(const graph::ClusterSpec& cluster) {
  const graph::ParameterTable& table = cluster.parameters;
  auto load = [&table](Latencies& latencies, const std::string& algorithm) {
    for (int p = 0; p < kProtocols; ++p) {
      std::string suffix = "." + algorithm + "." + kProtocolNames[p] + "_ns";
      latencies.base[p] = table.Value("nccl.base" + suffix) * 1e-9;
      latencies.intra[p] = table.Value("nccl.intra" + suffix) * 1e-9;
      latencies.inter[p] = table.Value("nccl.inter" + suffix) * 1e-9;
    }
  };
  load(ring_, "ring");
  load(tree_, "tree");
  ring_busbw_ = table.Value("nccl.ring_busbw_bytes_per_s");
  nvls_busbw_ = table.Value("nccl.nvls_busbw_bytes_per_s");
  nvls_latency_ = table.Value("nccl.nvls_latency_ns") * 1e-9;
  nic_bandwidth_ = table.Value("net.nic_bytes_per_s") * table.Value("net.nic_efficiency");
  nics_per_node_ = table.Value("net.nics_per_node");
  gpus_per_node_ = cluster.gpus_per_node;
  nvlink_bandwidth_ = table.Value("net.nvlink_bytes_per_s") * table.Value("net.nvlink_efficiency");
  loss_per_doubling_ = table.Value("net.bandwidth_loss_per_doubling");
  ll_factor_ = table.Value("nccl.ll_bandwidth_factor");
  ll128_factor_ = table.Value("nccl.ll128_bandwidth_factor");
  tree_factor_ = table.Value("nccl.tree_bandwidth_factor");
  tree_ll_factor_ = table.Value("nccl.tree_ll_bandwidth_factor");
  tree_ll128_factor_ = table.Value("nccl.tree_ll128_bandwidth_factor");
  ll_cap_[0] = table.Value("nccl.ll_bytes_per_s_1node");
  ll_cap_[1] = table.Value("nccl.ll_bytes_per_s_2nodes");
  ll_cap_[2] = table.Value("nccl.ll_bytes_per_s_nodes");
  post_overhead_ = table.Value("nccl.post_overhead_ns") * 1e-9;
  p2p_base_ = table.Value("p2p.base_ns") * 1e-9;
  eager_bytes_ = static_cast<int64_t>(table.Value("p2p.eager_bytes"));
}

// Bytes per second between the nodes of a communicator. The GPUs of a node share its NICs, and all
// of them communicate at the same time (each tp rank has its own dp group), so a communicator gets
// the NICs in proportion to the GPUs it holds.
double CollectiveCost::NetworkBandwidth(const CommTopology& topology) const {
  double nics = topology.ranks_per_node * nics_per_node_ / gpus_per_node_;
  double scale = 1 + loss_per_doubling_ * std::log2(static_cast<double>(topology.nodes));
  return nic_bandwidth_ * nics / scale;
}

double CollectiveCost::BusBandwidth(const CommTopology& topology) const {
  if (topology.nodes == 1) {
    return ring_busbw_;
  }
  double network = NetworkBandwidth(topology);
  return topology.ranks_per_node == 1 ? network : std::min(ring_busbw_, network);
}

double CollectiveCost::LowLatencyCap(const CommTopology& topology) const {
  return ll_cap_[std::clamp(topology.nodes, 1, 3) - 1];
}

double CollectiveCost::RingSeconds(const graph::CollectiveShape& shape,
                                   const CommTopology& topology,
                                   int protocol) const {
  bool all_reduce = shape.kind == graph::CollectiveKind::kAllReduce;
  double n = topology.size;
  // A pipelined chain (broadcast, reduce) moves every byte once over each link.
  double steps = all_reduce ? 2 * (n - 1) : n - 1;
  double inter_steps = topology.nodes == 1 ? 0 : (all_reduce ? 2.0 : 1.0) * topology.nodes;
  inter_steps = std::min(inter_steps, steps);
  double bandwidth = BusBandwidth(topology);
  if (protocol == kLl) {
    bandwidth = std::min(bandwidth * ll_factor_, LowLatencyCap(topology));
  } else if (protocol == kLl128) {
    bandwidth *= ll128_factor_;
  }
  double intra_latency = ring_.intra[protocol];
  if (topology.nodes > 1) {
    // Every step of an inter-node ring posts work to the network thread (NCCL's netOverhead).
    intra_latency = std::max(intra_latency, post_overhead_ * (protocol == kSimple ? 3 : 1));
  }
  double latency = ring_.base[protocol] + (steps - inter_steps) * intra_latency +
                   inter_steps * ring_.inter[protocol];
  double share = IsReduceOrBroadcast(shape.kind) ? 1 : steps / n;
  return latency + static_cast<double>(shape.bytes) * share / bandwidth;
}

double CollectiveCost::TreeSeconds(const graph::CollectiveShape& shape,
                                   const CommTopology& topology,
                                   int protocol) const {
  double bandwidth = BusBandwidth(topology) * tree_factor_;
  if (protocol == kLl) {
    bandwidth = std::min(bandwidth * tree_ll_factor_, LowLatencyCap(topology));
  } else if (protocol == kLl128) {
    bandwidth *= tree_ll128_factor_;
  }
  bandwidth *= TreeCorrection(protocol, shape.bytes);
  double depth = std::log2(static_cast<double>(topology.nodes));
  double latency =
      tree_.base[protocol] +
      2 * ((topology.ranks_per_node - 1) * tree_.intra[protocol] + depth * tree_.inter[protocol]);
  // Up and down: each byte passes a link twice.
  return latency + 2 * static_cast<double>(shape.bytes) / bandwidth;
}

double CollectiveCost::NvlsSeconds(const graph::CollectiveShape& shape,
                                   const CommTopology& topology) const {
  double n = topology.size;
  double share = shape.kind == graph::CollectiveKind::kAllReduce ? 2 * (n - 1) / n : (n - 1) / n;
  return nvls_latency_ + static_cast<double>(shape.bytes) * share / nvls_busbw_;
}

double CollectiveCost::AllToAllSeconds(const graph::CollectiveShape& shape,
                                       const CommTopology& topology) const {
  double n = topology.size;
  double per_peer = static_cast<double>(shape.bytes) / n;
  double intra_peers = topology.ranks_per_node - 1.0;
  double inter_peers = n - topology.ranks_per_node;
  double intra = intra_peers * per_peer / nvlink_bandwidth_;
  // Every rank of the node sends at once and they share its NICs.
  double network = topology.nodes > 1 ? NetworkBandwidth(topology) / topology.ranks_per_node : 1;
  double inter = inter_peers * per_peer / network;
  double latency = p2p_base_ + (topology.nodes > 1 ? ring_.inter[kSimple] : ring_.intra[kSimple]);
  return latency + std::max(intra, inter);
}

DurationNs CollectiveCost::Collective(const graph::CollectiveShape& shape,
                                      const CommTopology& topology) const {
  double best = 0;
  switch (shape.kind) {
    case graph::CollectiveKind::kAllToAll:
    case graph::CollectiveKind::kGather:
    case graph::CollectiveKind::kScatter:
      // NCCL makes them of sends and receives; the root's port bounds gather and scatter alike.
      best = AllToAllSeconds(shape, topology);
      break;
    default:
      best = RingSeconds(shape, topology, kLl);
      best = std::min(best, RingSeconds(shape, topology, kLl128));
      best = std::min(best, RingSeconds(shape, topology, kSimple));
      break;
  }
  if (shape.kind == graph::CollectiveKind::kAllReduce && topology.size > 1) {
    for (int protocol = 0; protocol < kProtocols; ++protocol) {
      best = std::min(best, TreeSeconds(shape, topology, protocol));
    }
  }
  bool nvls_kind = shape.kind == graph::CollectiveKind::kAllReduce ||
                   shape.kind == graph::CollectiveKind::kAllGather ||
                   shape.kind == graph::CollectiveKind::kReduceScatter;
  // NCCL uses NVLS only where a communicator holds more than two GPUs of one node.
  if (nvls_kind && nvls_busbw_ > 0 && topology.nodes == 1 && topology.size > 2) {
    best = std::min(best, NvlsSeconds(shape, topology));
  }
  if (topology.size == 1) {
    best = ring_.base[kLl];  // a copy or nothing; NCCL still launches
  }
  return NsFromSeconds(best * topology.slow_factor);
}

DurationNs CollectiveCost::PeerTransfer(int64_t bytes, bool same_node) const {
  double latency = p2p_base_ + (same_node ? ring_.intra[kSimple] : ring_.inter[kSimple]);
  double bandwidth =
      same_node ? nvlink_bandwidth_ : nic_bandwidth_ * nics_per_node_ / gpus_per_node_;
  return NsFromSeconds(latency + static_cast<double>(bytes) / bandwidth);
}

}  // namespace prism::replayer
