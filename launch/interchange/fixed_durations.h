// Times from the cost model written into a graph, for formats that hold times and no shapes.
#pragma once

#include "graph/graph.h"

namespace prism::launch {

// Every kernel, copy and memset gets the time that a replay would give it (graph::kDurationFixed).
// The cluster must have every parameter (replayer/cost/parameters.h).
void FixDurations(graph::Graph* graph);

}  // namespace prism::launch
