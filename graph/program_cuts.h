// Where a block of a JobProgram may be cut in two without anything reaching over the cut.
#pragma once

#include <vector>

#include "graph/op.h"

namespace prism::graph {

// By position, size() + 1 of them: whether all events that are recorded before it have been
// waited for there, and no NCCL group goes on.
std::vector<bool> CutPlaces(const Program& program);

}  // namespace prism::graph
