#include "replayer/network/job_transfers.h"

#include <algorithm>
#include <cmath>

#include "graph/base/divide.h"

namespace prism::replayer {

namespace {

int32_t NicsOf(const graph::ClusterSpec& cluster, const CollectiveCost& cost) {
  const auto nics = static_cast<int32_t>(cost.nics_per_node());
  return std::clamp(nics, 1, cluster.gpus_per_node);
}

// As the engine scales durations.
DurationNs Scaled(DurationNs duration, double factor) {
  return factor == 1 ? duration : std::llround(static_cast<double>(duration) * factor);
}

}  // namespace

FabricSize FabricSizeOf(const graph::ClusterSpec& cluster,
                        const CollectiveCost& cost,
                        uint32_t gpus) {
  FabricSize size;
  size.nodes = DivideUp(static_cast<int32_t>(gpus), cluster.gpus_per_node);
  size.nics_per_node = NicsOf(cluster, cost);
  size.nic_bytes_per_s = cost.NicBandwidth() * cost.nics_per_node() / size.nics_per_node;
  return size;
}

FabricSize FabricSizeOf(const Engine& engine) {
  const graph::Graph& graph = engine.graph();
  const std::vector<uint32_t>& placement = engine.options().placement;
  const uint32_t gpus =
      placement.empty() ? graph.ranks.size() : *std::ranges::max_element(placement) + 1;
  FabricSize size = FabricSizeOf(graph.cluster, engine.collective_cost(), gpus);
  size.nic_bytes_per_s /= engine.options().comm_scale;
  return size;
}

JobTransfers::JobTransfers(const Engine& engine, const JobPlace& place)
    : graph_(engine.graph()),
      cost_(engine.collective_cost()),
      comm_scale_(engine.options().comm_scale),
      place_(place) {
  nics_.gpus_per_node = graph_.cluster.gpus_per_node;
  nics_.nics_per_node = NicsOf(graph_.cluster, cost_);
  nics_.keeps_rail = graph_.cluster.network.kind == graph::FabricKind::kRailFatTree;
  nics_.gpu_of = engine.options().placement;
}

const JobTransfers::Known& JobTransfers::KnownOf(const ReadyTransfer& ready) {
  const graph::CollectiveShape& shape = *ready.shape;
  const auto [found, is_new] =
      collectives_.try_emplace(Key(ready.comm, shape.kind, shape.root, shape.bytes));
  Known& known = found->second;
  if (is_new) {
    const auto members = graph_.communicators.members_of(CommId(ready.comm));
    known.share = cost_.ShareOf(shape, *ready.topology);
    known.flows = FlowsOfCollective(
        shape, cost_.Choose(shape, *ready.topology, ready.topology->algorithm), members, nics_);
    for (EdgeFlow& edge : known.flows.edges) {
      edge.from_node += place_.first_node;
      edge.to_node += place_.first_node;
    }
  }
  return known;
}

void JobTransfers::DescribeSend(const ReadyTransfer& ready, NetworkTransfer* transfer) {
  while (sends_.size() <= ready.id) {
    sends_.emplace_back();
  }
  EdgeFlow& edge = sends_[ready.id];
  edge = FlowOfPeer(ready.sender, ready.receiver, ready.bytes, nics_);
  edge.from_node += place_.first_node;
  edge.to_node += place_.first_node;
  transfer->edges = {&edge, 1};
}

NetworkTransfer JobTransfers::Describe(const ReadyTransfer& ready) {
  NetworkTransfer transfer;
  transfer.owner = {place_.job, ready.id};
  transfer.start = ready.start;
  transfer.alone_ns = ready.alone_ns;
  transfer.key = (uint64_t{place_.job} << 32U) + ready.comm;
  if (ready.fixed) {
    transfer.flow_ns = ready.alone_ns;
    return transfer;
  }
  NetworkShare share;
  double scale = comm_scale_;
  if (ready.shape != nullptr) {
    const Known& known = KnownOf(ready);
    share = known.share;
    transfer.edges = known.flows.edges;
    transfer.rounds = known.flows.rounds;
    transfer.in_series = known.flows.in_series;
  } else {
    scale *= ready.slow_factor;
    share = cost_.ShareOfPeer(ready.bytes);
    transfer.alone_ns = Scaled(cost_.PeerTransfer(ready.bytes, false), scale);
    DescribeSend(ready, &transfer);
  }
  transfer.flow_ns = std::min(NsFromSeconds(share.network * scale), transfer.alone_ns);
  transfer.fixed_ns = NsFromSeconds(share.fixed * scale);
  return transfer;
}

}  // namespace prism::replayer
