// Whether a cluster can be computed with. One from a file may come from anywhere, and cost models
// rely on what presets are checked for.
#pragma once

#include "graph/base/status.h"
#include "graph/cluster.h"

namespace prism::replayer {

// kBadFile with the first of its faults (parameters.h).
Status CheckCluster(const graph::ClusterSpec& cluster);

}  // namespace prism::replayer
