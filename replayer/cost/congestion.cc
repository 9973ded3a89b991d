#include "replayer/cost/congestion.h"

#include <algorithm>
#include <cmath>

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

// Time added to each call of a collective, and to each message.
struct Congestion {
  double call_ns = 0;
  double stall_ns = 0;

  [[nodiscard]] bool none() const { return call_ns == 0 && stall_ns == 0; }
};

Congestion CongestionOf(const graph::ClusterSpec& cluster,
                        const graph::ParallelSizes& sizes,
                        bool stalls) {
  const graph::ParameterTable& table = cluster.parameters;
  const double nodes = std::max(1.0, static_cast<double>(sizes.tp) / cluster.gpus_per_node);
  const double over_nodes = std::pow(table.Value("host.collective_nodes_factor"), std::log2(nodes));
  Congestion congestion;
  if (CrossesNodes(cluster, sizes)) {
    congestion.call_ns = sizes.tp * over_nodes * table.Value("host.collective_rank_ns");
  }
  congestion.stall_ns = stalls ? table.Value("net.stall_ns") : 0.0;
  return congestion;
}

graph::ClusterSpec Congested(const graph::ClusterSpec& cluster,
                             const graph::ParallelSizes& sizes,
                             bool stalls) {
  const Congestion congestion = CongestionOf(cluster, sizes, stalls);
  graph::ClusterSpec congested = cluster;
  if (!congestion.none()) {
    graph::ParameterTable& table = congested.parameters;
    table.SetValue("host.collective_ns", table.Value("host.collective_ns") + congestion.call_ns);
    table.SetValue("p2p.base_ns", table.Value("p2p.base_ns") + congestion.stall_ns);
  }
  return congested;
}

}  // namespace

bool FindsCongestion(const graph::ClusterSpec& cluster, const graph::JobSpec& job) {
  return !CongestionOf(cluster, job.parallel, AlwaysStalls(cluster, job.parallel)).none();
}

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
