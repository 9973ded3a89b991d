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
#include "graph/job/fields.h"
#include "graph/job/names.h"

namespace prism::graph {
namespace {

#define PRISM_COMPARE_GPU(member, name) field_("gpu." #name, left.member, right.member);
#define PRISM_COMPARE_NETWORK(member, name) field_("network." #name, left.member, right.member);

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
    PRISM_GPU_FIELDS(PRISM_COMPARE_GPU)
  }

  void CompareNetworks(const NetworkSpec& left, const NetworkSpec& right) {
    field_.Named("network.kind", kFabricKindNames, left.kind, right.kind);
    field_.Named("network.routing", kFabricRoutingNames, left.routing, right.routing);
    PRISM_TREE_FIELDS(PRISM_COMPARE_NETWORK)
    field_("network.torus", fmt::format("{}", fmt::join(left.torus, "x")),
           fmt::format("{}", fmt::join(right.torus, "x")));
    PRISM_NETWORK_FIELDS(PRISM_COMPARE_NETWORK)
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

#undef PRISM_COMPARE_GPU
#undef PRISM_COMPARE_NETWORK

}  // namespace

std::vector<Difference> DiffClusters(const ClusterSpec& left, const ClusterSpec& right) {
  return ClusterComparison().Run(left, right);
}

}  // namespace prism::graph
