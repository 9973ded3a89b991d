#include "replayer/cost/congestion.h"

#include <utility>
#include <vector>

namespace prism::replayer {
namespace {

constexpr int32_t kStallGroupNodes = 4;
// A call of a group over several nodes, to one inside a node, per rank.
constexpr double kCallOverNodes = 1.25;

}  // namespace

graph::ClusterSpec WithCongestion(const graph::ClusterSpec& cluster, const graph::JobSpec& job) {
  const graph::ParameterTable& table = cluster.parameters;
  const graph::ParallelSizes& sizes = job.parallel;
  const auto node = static_cast<double>(cluster.gpus_per_node);
  const double nodes = static_cast<double>(sizes.world_size()) / node;
  const bool stalls =
      nodes >= table.Value("net.stall_nodes") || sizes.tp / node >= kStallGroupNodes;
  const bool crosses = sizes.pp > 1 && nodes > 1;
  const double ranks = sizes.tp * (sizes.tp > node ? kCallOverNodes : 1.0);
  const double call_ns = crosses ? ranks * table.Value("host.collective_rank_ns") : 0.0;
  const double stall_ns = stalls ? table.Value("net.stall_ns") : 0.0;
  if (call_ns == 0 && stall_ns == 0) {
    return cluster;
  }
  std::vector<graph::Parameter> parameters = table.all();
  for (graph::Parameter& parameter : parameters) {
    if (parameter.key == "host.collective_ns") {
      parameter.value += call_ns;
    } else if (parameter.key == "p2p.base_ns") {
      parameter.value += stall_ns;
    }
  }
  graph::ClusterSpec congested = cluster;
  congested.parameters = graph::ParameterTable(std::move(parameters));
  return congested;
}

}  // namespace prism::replayer
