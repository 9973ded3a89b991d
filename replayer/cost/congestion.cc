#include "replayer/cost/congestion.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace prism::replayer {
namespace {

bool CrossesNodes(const graph::ClusterSpec& cluster, const graph::ParallelSizes& sizes) {
  return sizes.pp > 1 && sizes.world_size() > cluster.gpus_per_node;
}

bool AlwaysStalls(const graph::ClusterSpec& cluster, const graph::ParallelSizes& sizes) {
  const graph::ParameterTable& table = cluster.parameters;
  const auto node = static_cast<double>(cluster.gpus_per_node);
  return static_cast<double>(sizes.world_size()) / node >= table.Value("net.stall_nodes") ||
         sizes.tp / node >= table.Value("net.stall_group_nodes");
}

graph::ClusterSpec Congested(const graph::ClusterSpec& cluster,
                             const graph::ParallelSizes& sizes,
                             bool stalls) {
  const graph::ParameterTable& table = cluster.parameters;
  const double nodes = std::max(1.0, static_cast<double>(sizes.tp) / cluster.gpus_per_node);
  const double over_nodes = std::pow(table.Value("host.collective_nodes_factor"), std::log2(nodes));
  const double call_ns = CrossesNodes(cluster, sizes)
                             ? sizes.tp * over_nodes * table.Value("host.collective_rank_ns")
                             : 0.0;
  const double stall_ns = stalls ? table.Value("net.stall_ns") : 0.0;
  if (call_ns == 0 && stall_ns == 0) {
    return cluster;
  }
  graph::ClusterSpec congested = cluster;
  congested.parameters.SetValue("host.collective_ns", table.Value("host.collective_ns") + call_ns);
  congested.parameters.SetValue("p2p.base_ns", table.Value("p2p.base_ns") + stall_ns);
  return congested;
}

}  // namespace

graph::ClusterSpec WithCongestion(const graph::ClusterSpec& cluster, const graph::JobSpec& job) {
  return Congested(cluster, job.parallel, AlwaysStalls(cluster, job.parallel));
}

std::optional<graph::ClusterSpec> Stalled(const graph::ClusterSpec& cluster,
                                          const graph::JobSpec& job) {
  const bool may = cluster.parameters.Value("net.stall_ns") > 0 &&
                   CrossesNodes(cluster, job.parallel) && !AlwaysStalls(cluster, job.parallel);
  return may ? std::optional(Congested(cluster, job.parallel, true)) : std::nullopt;
}

}  // namespace prism::replayer
