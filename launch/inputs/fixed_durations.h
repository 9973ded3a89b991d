// Writes times from the cost model into a graph, for formats that have times but no shapes.
#pragma once

#include "graph/graph.h"

namespace prism::launch {

// Every kernel, copy and memset gets the time that a replay would give it (graph::kDurationFixed).
// The cluster must have every parameter (replayer/cost/parameters.h).
void FixDurations(graph::Graph* graph);

}  // namespace prism::launch
