#include "launch/verbs/network_cluster.h"

#include <utility>
#include <vector>

namespace prism::launch {
namespace {

constexpr int64_t kMaxGpusPerNode = 65'536;  // as replayer/cost/parameters.cc

void Set(const char* key,
         double value,
         const std::string& source,
         std::vector<graph::Parameter>* table) {
  for (graph::Parameter& parameter : *table) {
    if (parameter.key == key) {
      parameter.value = value;
      parameter.source = source;
      parameter.mark = graph::Mark::kAssumed;
    }
  }
}

}  // namespace

void UseNetwork(const slicer::AstraNetwork& network,
                const std::string& source,
                graph::ClusterSpec* cluster) {
  if (network.bandwidth.empty() || network.ranks.front() > kMaxGpusPerNode) {
    return;
  }
  std::vector<graph::Parameter> table = cluster->parameters.all();
  cluster->gpus_per_node = static_cast<int32_t>(network.ranks.front());
  Set("net.nvlink_bytes_per_s", network.bandwidth.front(), source, &table);
  Set("net.nics_per_node", static_cast<double>(network.ranks.front()), source, &table);
  if (network.bandwidth.size() > 1) {
    Set("net.nic_bytes_per_s", network.bandwidth[1], source, &table);
  }
  if (network.latency.size() > 1) {
    constexpr double kNsPerS = 1e9;
    Set("net.hop_ns", network.latency[1] * kNsPerS, source, &table);
  }
  cluster->parameters = graph::ParameterTable(std::move(table));
}

}  // namespace prism::launch
