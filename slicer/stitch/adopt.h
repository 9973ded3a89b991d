// Gives a role of a graph the program that a new recording of one of its ranks shows (--on-mismatch
// adopt).
#pragma once

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "graph/graph.h"

namespace prism::slicer {

// The graph with the program and memory of the fragment's rank for all ranks of its role; every
// other role stays. Every rank of the role is assumed to do with its own groups and peers what the
// fragment's rank does with its groups and peers. Fails if those are not in the role. Does not
// validate: the caller does.
Result<graph::Graph> AdoptFragment(const graph::Graph& graph, graph::Fragment fragment);

}  // namespace prism::slicer
