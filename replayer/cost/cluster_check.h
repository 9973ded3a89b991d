// Whether cost models can use a cluster. One read from a file may come from anywhere, and cost
// models rely on what is checked for presets.
#pragma once

#include "graph/base/status.h"
#include "graph/job/cluster.h"
#include "graph/validate/valid_graph.h"

namespace prism::replayer {

// kBadFile with the first of its faults (parameters.h).
Status CheckCluster(const graph::ClusterSpec& cluster);

// The same for the cluster of a graph, whose file an older version may have written.
Status RefuseUncosted(const graph::LoadedGraph& loaded);

}  // namespace prism::replayer
