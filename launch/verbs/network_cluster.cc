#include "launch/verbs/network_cluster.h"

#include <algorithm>

#include <fmt/format.h>

namespace prism::launch {
namespace {

constexpr int64_t kMaxGpusPerNode = 65'536;  // as replayer/cost/parameters.cc

void Set(const char* key, double value, const std::string& source, graph::ParameterTable* table) {
  if (const graph::Parameter* known = table->Find(key); known != nullptr) {
    table->Put({{key, value, known->unit, source, graph::Mark::kAssumed}});
  }
}

// A cluster is nodes and what is between them.
void NoteWhatIsLeftOut(const slicer::AstraNetwork& network, slicer::Notes* notes) {
  const auto dims = static_cast<int64_t>(network.ranks.size());
  const auto latencies = static_cast<int64_t>(network.latency.size());
  if (network.bandwidth.empty()) {
    notes->Add("latencies of a network without bandwidths are left out", latencies);
    return;
  }
  notes->Add("dimensions of the network beyond the second are as fast as that one", dims - 2);
  notes->Add("latencies inside of a node stay the cluster's, the network's are left out",
             std::min<int64_t>(latencies, 1));
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
        "{}: the first dimension, which is taken for a node, has {} ranks, more than {}", source,
        network.ranks.front(), kMaxGpusPerNode));
  }
  graph::ParameterTable* table = &cluster->parameters;
  cluster->gpus_per_node = static_cast<int32_t>(network.ranks.front());
  Set("net.nvlink_bytes_per_s", network.bandwidth.front(), source, table);
  Set("net.nics_per_node", static_cast<double>(network.ranks.front()), source, table);
  if (network.bandwidth.size() > 1) {
    Set("net.nic_bytes_per_s", network.bandwidth[1], source, table);
  }
  if (network.latency.size() > 1) {
    constexpr double kNsPerS = 1e9;
    Set("net.hop_ns", network.latency[1] * kNsPerS, source, table);
  }
  return OkStatus();
}

}  // namespace prism::launch
