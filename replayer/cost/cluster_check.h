// Whether a cluster can be computed with. One from a file may come from anywhere, and cost models
// rely on what presets are checked for.
#pragma once

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/valid_graph.h"

namespace prism::replayer {

// kBadFile with the first of its faults (parameters.h).
Status CheckCluster(const graph::ClusterSpec& cluster);

// The same of a graph's, whose file an older version may have written.
Status RefuseUncosted(const graph::LoadedGraph& loaded);

}  // namespace prism::replayer
