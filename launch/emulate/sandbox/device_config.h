// The channel's Config of a sandbox process, from the cluster preset: what the virtual device
// reports about itself, how much memory NCCL takes, what issuing an op costs the host.
#pragma once

#include <vector>

#include "graph/base/ids.h"
#include "graph/job/cluster.h"
#include "graph/job/job.h"
#include "shim/channel/messages.h"

namespace prism::launch {

// `present`: the sandbox ranks that run together, ascending, `rank` among them; at most
// channel::kMaxSandboxRanks.
channel::Config MakeDeviceConfig(const graph::ClusterSpec& cluster,
                                 const graph::JobSpec& job,
                                 Rank rank,
                                 const std::vector<Rank>& present);

// Multiplies the host's issuing costs by `factor`, as in a replay (replayer::SlowedHostCost).
void SlowHost(double factor, channel::Config* config);

}  // namespace prism::launch
