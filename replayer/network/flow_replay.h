// Replays jobs whose transfers between nodes share one network.
//
// The engines evaluate what they can and hand out the transfers that they reached
// (replayer/engine/engine.h); the network (replayer/network/flow_network.h) runs to the next end,
// which is reported to its engine; and so on. An end is never reported before every transfer that
// could start earlier is on the network, so the order is that of virtual time and the result
// depends on nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/network/flow_network.h"

namespace prism::replayer {

// The network of a job of that many GPUs that has its cluster to itself. kBadFile where that
// network cannot connect them.
Result<Topology> NetworkOfJob(const graph::ClusterSpec& cluster, uint32_t gpus);

struct NetworkJob {
  const graph::Graph* graph = nullptr;
  ReplayOptions options;   // network kFlow, no frozen times
  int32_t first_node = 0;  // of the cluster; ranks fill nodes in order from there
};

// Changes the network of the jobs before it is built.
using NetworkEdit = std::function<void(NetworkSetup*)>;

// Results by job. The network is that of the first job's cluster, as large as the jobs need, with
// the parts that the first job's perturbations put out of service, and its seed. Fails where jobs
// overlap, stall, or cannot reach each other's NICs.
Result<std::vector<ReplayResult>> ReplayTogether(const std::vector<NetworkJob>& jobs,
                                                 const NetworkEdit& edit = nullptr);

}  // namespace prism::replayer
