// DiffClusters (graph/diff/diff.h): the numbers of two clusters, of their GPUs, networks and cost
// parameters, that have different values. Two clusters are equal where every cost model reads the
// same, so descriptions, sources and marks of how a number is known are not compared.
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/describe.h"
#include "graph/diff/diff.h"
#include "graph/diff/field_differences.h"
#include "graph/job/names.h"

namespace prism::graph {
namespace {

class ClusterComparison {
 public:
  std::vector<Difference> Run(const ClusterSpec& left, const ClusterSpec& right) && {
    field_("cluster", left.name, right.name);
    field_("gpus_per_node", left.gpus_per_node, right.gpus_per_node);
    CompareGpus(left.gpu, right.gpu);
    CompareNetworks(left.network, right.network);
    CompareParameters(left.parameters, right.parameters);
    return std::move(differences_);
  }

 private:
  void CompareGpus(const GpuSpec& left, const GpuSpec& right) {
    field_("gpu.name", left.name, right.name);
    field_("gpu.compute_major", left.compute_major, right.compute_major);
    field_("gpu.compute_minor", left.compute_minor, right.compute_minor);
    field_("gpu.sm_count", left.sm_count, right.sm_count);
    field_("gpu.memory_bytes", left.memory_bytes, right.memory_bytes);
    field_("gpu.l2_bytes", left.l2_bytes, right.l2_bytes);
    field_("gpu.shared_memory_per_sm", left.shared_memory_per_sm, right.shared_memory_per_sm);
    field_("gpu.shared_memory_per_block_optin", left.shared_memory_per_block_optin,
           right.shared_memory_per_block_optin);
    field_("gpu.segments_ascending", left.segments_ascending, right.segments_ascending);
  }

  void CompareNetworks(const NetworkSpec& left, const NetworkSpec& right) {
    field_.Named("network.kind", kFabricKindNames, left.kind, right.kind);
    field_.Named("network.routing", kFabricRoutingNames, left.routing, right.routing);
    field_("network.planes", left.planes, right.planes);
    field_("network.nodes_per_leaf", left.nodes_per_leaf, right.nodes_per_leaf);
    field_("network.leaf_uplinks", left.leaf_uplinks, right.leaf_uplinks);
    field_("network.leaves_per_pod", left.leaves_per_pod, right.leaves_per_pod);
    field_("network.spine_uplinks", left.spine_uplinks, right.spine_uplinks);
    field_("network.torus", fmt::format("{}", fmt::join(left.torus, "x")),
           fmt::format("{}", fmt::join(right.torus, "x")));
    field_("network.nodes_per_cluster", left.nodes_per_cluster, right.nodes_per_cluster);
    field_("network.connections", left.connections, right.connections);
    field_("network.uplink_bytes_per_s", left.uplink_bytes_per_s, right.uplink_bytes_per_s);
    field_("network.cluster_bytes_per_s", left.cluster_bytes_per_s, right.cluster_bytes_per_s);
    field_("network.cluster_ns", left.cluster_ns, right.cluster_ns);
  }

  void CompareParameters(const ParameterTable& left, const ParameterTable& right) {
    std::map<std::string, std::pair<std::string, std::string>> values;
    for (const Parameter& parameter : left.all()) {
      values[parameter.key].first = fmt::format("{}{}", parameter.value, UnitText(parameter));
    }
    for (const Parameter& parameter : right.all()) {
      values[parameter.key].second = fmt::format("{}{}", parameter.value, UnitText(parameter));
    }
    for (const auto& [key, sides] : values) {
      field_(key, sides.first, sides.second);
    }
  }

  std::vector<Difference> differences_;
  FieldDifferences field_{DifferenceKind::kCluster, "", &differences_};
};

}  // namespace

std::vector<Difference> DiffClusters(const ClusterSpec& left, const ClusterSpec& right) {
  return ClusterComparison().Run(left, right);
}

}  // namespace prism::graph
