// A role of a graph takes the program that one of its ranks was recorded with anew
// (--on-mismatch adopt).
#pragma once

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "graph/graph.h"

namespace prism::slicer {

// The graph with the program and memory of the fragment's rank for all ranks of its role; every
// other role stays. What the fragment's rank does with groups and peers is taken to be what every
// rank of the role does with its own. Fails where they are none of the role's; does not validate:
// the caller does.
Result<graph::Graph> AdoptFragment(const graph::Graph& graph, graph::Fragment fragment);

}  // namespace prism::slicer
