// Where a block of a JobProgram may be cut in two without anything spanning the cut.
#pragma once

#include <vector>

#include "graph/program/op.h"

namespace prism::graph {

// For each of the size() + 1 positions: whether every event recorded before it that is waited for
// has been waited for there, and no NCCL group spans it.
std::vector<bool> CutPlaces(const Program& program);

}  // namespace prism::graph
