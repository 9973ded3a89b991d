#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/diff.h"

namespace prism::graph {
namespace {

class ClusterComparison {
 public:
  std::vector<Difference> Run(const ClusterSpec& left, const ClusterSpec& right) && {
    Field("cluster", left.name, right.name);
    Field("gpus_per_node", left.gpus_per_node, right.gpus_per_node);
    CompareGpus(left.gpu, right.gpu);
    CompareNetworks(left.network, right.network);
    CompareParameters(left.parameters, right.parameters);
    return std::move(differences_);
  }

 private:
  template <typename T>
  void Field(const std::string& name, const T& left, const T& right) {
    if (!(left == right)) {
      differences_.push_back(
          {DifferenceKind::kCluster, name, fmt::format("{}", left), fmt::format("{}", right)});
    }
  }

  void CompareGpus(const GpuSpec& left, const GpuSpec& right) {
    Field("gpu.name", left.name, right.name);
    Field("gpu.compute_major", left.compute_major, right.compute_major);
    Field("gpu.compute_minor", left.compute_minor, right.compute_minor);
    Field("gpu.sm_count", left.sm_count, right.sm_count);
    Field("gpu.memory_bytes", left.memory_bytes, right.memory_bytes);
    Field("gpu.l2_bytes", left.l2_bytes, right.l2_bytes);
    Field("gpu.shared_memory_per_sm", left.shared_memory_per_sm, right.shared_memory_per_sm);
    Field("gpu.shared_memory_per_block_optin", left.shared_memory_per_block_optin,
          right.shared_memory_per_block_optin);
    Field("gpu.segments_ascending", left.segments_ascending, right.segments_ascending);
  }

  void CompareNetworks(const NetworkSpec& left, const NetworkSpec& right) {
    Field("network.kind", static_cast<int>(left.kind), static_cast<int>(right.kind));
    Field("network.routing", static_cast<int>(left.routing), static_cast<int>(right.routing));
    Field("network.planes", left.planes, right.planes);
    Field("network.nodes_per_leaf", left.nodes_per_leaf, right.nodes_per_leaf);
    Field("network.leaf_uplinks", left.leaf_uplinks, right.leaf_uplinks);
    Field("network.leaves_per_pod", left.leaves_per_pod, right.leaves_per_pod);
    Field("network.spine_uplinks", left.spine_uplinks, right.spine_uplinks);
    Field("network.torus", fmt::format("{}", fmt::join(left.torus, "x")),
          fmt::format("{}", fmt::join(right.torus, "x")));
    Field("network.nodes_per_cluster", left.nodes_per_cluster, right.nodes_per_cluster);
    Field("network.connections", left.connections, right.connections);
    Field("network.uplink_bytes_per_s", left.uplink_bytes_per_s, right.uplink_bytes_per_s);
    Field("network.cluster_bytes_per_s", left.cluster_bytes_per_s, right.cluster_bytes_per_s);
    Field("network.cluster_ns", left.cluster_ns, right.cluster_ns);
  }

  void CompareParameters(const ParameterTable& left, const ParameterTable& right) {
    std::map<std::string, std::pair<std::string, std::string>> values;
    for (const Parameter& parameter : left.all()) {
      values[parameter.key].first = fmt::format("{} {}", parameter.value, parameter.unit);
    }
    for (const Parameter& parameter : right.all()) {
      values[parameter.key].second = fmt::format("{} {}", parameter.value, parameter.unit);
    }
    for (const auto& [key, sides] : values) {
      Field(key, sides.first, sides.second);
    }
  }

  std::vector<Difference> differences_;
};

}  // namespace

std::vector<Difference> DiffClusters(const ClusterSpec& left, const ClusterSpec& right) {
  return ClusterComparison().Run(left, right);
}

}  // namespace prism::graph
