#include "replayer/cost/cluster_check.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "replayer/cost/parameters.h"

namespace prism::replayer {

Status CheckCluster(const graph::ClusterSpec& cluster) {
  std::vector<std::string> faults = CheckParameters(cluster.parameters);
  if (cluster.gpus_per_node < 1) {
    faults.push_back(fmt::format("{} GPUs per node", cluster.gpus_per_node));
  }
  if (faults.empty()) {
    return OkStatus();
  }
  return BadFile(fmt::format("the cluster '{}' cannot be used: {}; faults in all: {}", cluster.name,
                             faults.front(), faults.size()));
}

Status RefuseUncosted(const graph::LoadedGraph& loaded) {
  const std::vector<std::string> faults = CheckParameters(loaded.graph.cluster.parameters);
  return faults.empty()
             ? OkStatus()
             : BadFile(fmt::format(
                   "{}: times cannot be computed for its cluster: {}; record the job again",
                   loaded.path, faults.front()));
}

}  // namespace prism::replayer
