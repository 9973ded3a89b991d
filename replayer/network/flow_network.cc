#include "replayer/network/flow_network.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace prism::replayer {

namespace {

// Flows that together just fill a link must not be slowed by the last bit of their sum.
constexpr double kHeadroom = 1 + 1e-9;

std::vector<double> CapacitiesOf(const Topology& topology) {
  std::vector<double> capacities;
  capacities.reserve(topology.links().size());
  for (const FabricLink& link : topology.links()) {
    capacities.push_back(link.bytes_per_s * kHeadroom);
  }
  return capacities;
}

}  // namespace

FlowNetwork::FlowNetwork(const NetworkSetup& setup, Topology topology)
    : topology_(std::move(topology)),
      queue_(CapacitiesOf(topology_)),
      router_(topology_, queue_.solver(), setup.seed),
      cluster_ns_(setup.spec.cluster_ns),
      link_bytes_(topology_.links().size()) {
}

Result<std::unique_ptr<FlowNetwork>> FlowNetwork::Create(const NetworkSetup& setup) {
  if (const std::string fault = NetworkFault(setup.spec, setup.size); !fault.empty()) {
    return BadFile(fault);
  }
  std::unique_ptr<FlowNetwork> network(new FlowNetwork(setup, Topology(setup.spec, setup.size)));
  for (const std::string& name : setup.failed) {
    PRISM_RETURN_IF_ERROR(network->router_.Fail(name));
  }
  return network;
}

void FlowNetwork::Add(const NetworkTransfer& transfer) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<uint32_t>(open_.size()));
    open_.emplace_back();
  }
  const uint32_t slot = unused_.back();
  unused_.pop_back();
  open_[slot] = {transfer, 0, 0};
  waiting_.push_back({transfer.start, added_++, slot});
  std::push_heap(waiting_.begin(), waiting_.end());
}

// One part of an edge, each on a different plane if there are several; if that plane has no path,
// on the next one that has.
Status FlowNetwork::StartEdge(uint32_t slot, const EdgeFlow& edge, uint32_t part) {
  const NetworkTransfer& transfer = open_[slot].transfer;
  const auto planes = static_cast<uint32_t>(topology_.spec().planes);
  const uint32_t parts = planes * static_cast<uint32_t>(topology_.spec().connections);
  const uint64_t key = (transfer.key * parts + part) * 0x9E3779B97F4A7C15U;
  bool found = false;
  for (uint32_t i = 0; i < planes && !found; ++i) {
    const auto plane = static_cast<int32_t>((part + i) % planes);
    const VertexId from = topology_.PortOf(edge.from_node, edge.from_nic, plane);
    const VertexId to = topology_.PortOf(edge.to_node, edge.to_nic, plane);
    found = router_.FindWay(from, to, key ^ ((uint64_t{from} << 32U) | to), &way_);
  }
  if (!found) {
    return RunFailed(fmt::format(
        "the network is cut: NIC {} of node {} cannot reach NIC {} of node {}; out of service: {}",
        edge.from_nic, edge.from_node, edge.to_nic, edge.to_node,
        fmt::join(router_.failed(), ", ")));
  }
  FlowRequest request;
  request.links = way_;
  request.bytes = edge.bytes / parts;
  request.bound = request.bytes / SecondsFromNs(transfer.flow_ns);
  request.owner = slot;
  queue_.Begin(request, transfer.start);
  for (const LinkId link : way_) {
    link_bytes_[link] += request.bytes;
  }
  ++open_[slot].flows;
  return OkStatus();
}

// A byte waits for the slow link as often as it crosses one.
Status FlowNetwork::Start(uint32_t slot, std::vector<TransferEnd>* ends) {
  const NetworkTransfer transfer = open_[slot].transfer;
  const int32_t parts = topology_.spec().planes * topology_.spec().connections;
  int64_t crossings = 0;
  const EdgeFlow* previous = nullptr;
  for (const EdgeFlow& edge : transfer.edges) {
    if (transfer.flow_ns == 0 || edge.bytes <= 0) {
      continue;
    }
    for (int32_t part = 0; part < parts; ++part) {
      PRISM_RETURN_IF_ERROR(StartEdge(slot, edge, static_cast<uint32_t>(part)));
    }
    const bool counted = previous != nullptr && previous->from_node == edge.from_node &&
                         previous->to_node == edge.to_node;
    const bool crosses = std::ranges::any_of(
        way_, [this](LinkId link) { return topology_.links()[link].between_clusters; });
    crossings += crosses && !counted ? 1 : 0;
    previous = &edge;
  }
  const int64_t in_series = transfer.in_series ? crossings : std::min<int64_t>(crossings, 1);
  open_[slot].latency_ns =
      static_cast<DurationNs>(cluster_ns_ * static_cast<double>(in_series) * transfer.rounds);
  if (open_[slot].flows == 0) {
    End(slot, transfer.start + transfer.flow_ns, ends);
  }
  return OkStatus();
}

void FlowNetwork::End(uint32_t slot, TimeNs last_flow, std::vector<TransferEnd>* ends) {
  const Open& open = open_[slot];
  const NetworkTransfer& transfer = open.transfer;
  const DurationNs after = std::min(transfer.fixed_ns, transfer.alone_ns - transfer.flow_ns);
  const TimeNs end = std::max(transfer.start + transfer.alone_ns, last_flow + after);
  ends->push_back({transfer.owner, end + open.latency_ns});
  unused_.push_back(slot);
}

LinkLoads FlowNetwork::Loads(int32_t iterations) const {
  // "c0.p1.leaf7" is a leaf.
  const auto kind_of = [](const std::string& name) {
    const std::string last = name.substr(name.rfind('.') + 1);
    return last.substr(0, last.find_first_of("0123456789"));
  };
  LinkLoads loads;
  for (LinkId link = 0; link < link_bytes_.size(); ++link) {
    const FabricLink& cable = topology_.links()[link];
    const std::string from = topology_.NameOf(cable.from);
    const std::string to = topology_.NameOf(cable.to);
    const std::string kind = fmt::format("{}-{}", kind_of(from), kind_of(to));
    ++loads.counts[kind];
    if (link_bytes_[link] > 0) {
      loads.links.push_back({fmt::format("{}-{}", from, to), kind, link_bytes_[link] / iterations,
                             cable.bytes_per_s});
    }
  }
  return loads;
}

Status FlowNetwork::Next(std::vector<TransferEnd>* ends) {
  ends->clear();
  while (ends->empty()) {
    const TimeNs start = waiting_.empty() ? kNever : waiting_.front().start;
    const TimeNs now = std::min(start, queue_.NextEnd());
    if (now == kNever) {
      return OkStatus();
    }
    if (queue_.NextEnd() == now) {
      ended_.clear();
      queue_.EndNext(&ended_);
      for (const uint32_t slot : ended_) {
        if (--open_[slot].flows == 0) {
          End(slot, now, ends);
        }
      }
    }
    while (!waiting_.empty() && waiting_.front().start == now) {
      const uint32_t slot = waiting_.front().slot;
      std::pop_heap(waiting_.begin(), waiting_.end());
      waiting_.pop_back();
      PRISM_RETURN_IF_ERROR(Start(slot, ends));
    }
    queue_.Settle(now);
  }
  return OkStatus();
}

}  // namespace prism::replayer
