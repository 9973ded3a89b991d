#include "launch/inputs/network_cluster.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace prism::launch {
namespace {

constexpr int64_t kMaxGpusPerNode = 65'536;  // as replayer/cost/parameters.cc

void Set(const char* key, double value, const std::string& source, graph::ParameterTable* table) {
  if (const graph::Parameter* known = table->Find(key); known != nullptr) {
    table->Put({{key, value, known->unit, source, graph::Mark::kAssumed}});
  }
}

// A cluster has only nodes and the links between them.
void NoteWhatIsLeftOut(const slicer::AstraNetwork& network, slicer::Notes* notes) {
  const auto dims = static_cast<int64_t>(network.ranks.size());
  notes->Add("keys of the network file about NICs, routers and memory do not act here",
             network.ignored);
  const auto latencies = static_cast<int64_t>(network.latency.size());
  if (network.bandwidth.empty()) {
    notes->Add("latencies of a network without bandwidths are ignored", latencies);
    return;
  }
  notes->Add("dimensions of the network beyond the second are as fast as the second", dims - 2);
  notes->Add("the efficiency of NCCL's rings, trees and NVLS is that of the cluster",
             std::min<int64_t>(dims, 2));
  notes->Add("latencies inside a node are those of the cluster, not of the network file",
             std::min<int64_t>(latencies, 1));
}

// Rates are what messages achieve: no efficiency reduces them.
void UseRates(const slicer::AstraNetwork& network,
              const std::string& source,
              graph::ParameterTable* table) {
  Set("net.nvlink_bytes_per_s", network.bandwidth.front(), source, table);
  Set("net.nvlink_efficiency", 1, source, table);
  Set("net.nics_per_node", static_cast<double>(network.ranks.front()), source, table);
  if (network.bandwidth.size() > 1) {
    Set("net.nic_bytes_per_s", network.bandwidth[1], source, table);
    Set("net.nic_efficiency", 1, source, table);
  }
}

// A latency between nodes is a message's whole latency; a hop is the difference to one inside a
// node.
void UseLatency(double seconds,
                const std::string& source,
                graph::ParameterTable* table,
                slicer::Notes* notes) {
  constexpr double kNsPerS = 1e9;
  const double hop = seconds * kNsPerS - table->Value("p2p.base_ns");
  Set("net.hop_ns", std::max(hop, 0.0), source, table);
  notes->Add("latencies between nodes are raised to the cluster's latency of a message",
             hop < 0 ? 1 : 0);
}

}  // namespace

Status UseNetwork(const slicer::AstraNetwork& network,
                  const std::string& source,
                  graph::ClusterSpec* cluster,
                  slicer::Notes* notes) {
  NoteWhatIsLeftOut(network, notes);
  if (network.bandwidth.empty()) {
    return OkStatus();
  }
  if (network.ranks.front() > kMaxGpusPerNode) {
    return BadFile(fmt::format(
        "{}: the first dimension, taken for a node, has {} ranks; at most {} are possible", source,
        network.ranks.front(), kMaxGpusPerNode));
  }
  cluster->gpus_per_node = static_cast<int32_t>(network.ranks.front());
  UseRates(network, source, &cluster->parameters);
  if (network.latency.size() > 1) {
    UseLatency(network.latency[1], source, &cluster->parameters, notes);
  }
  return OkStatus();
}

}  // namespace prism::launch
