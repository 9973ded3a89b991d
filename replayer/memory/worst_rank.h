// Which rank needs the most device memory.
#pragma once

#include "graph/graph.h"

namespace prism::replayer {

// The rank with the largest device_bytes; ties go to the lowest rank. Invalid for a graph without
// ranks.
Rank WorstRank(const graph::Graph& graph);

}  // namespace prism::replayer
