// How far the memory of approximated ranks may be from that of the role that serves them: ranks
// that were not recorded, and whose recorded neighbours differ a little (source `like` in
// ranks.csv).
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace prism::replayer {

// How the peaks of a stage's recorded ranks compare with the peak of the stage's role.
struct PeakSpread {
  int64_t ranks = 0;  // recorded ones
  int64_t above = 0;  // allocator bytes by which the furthest exceeds it, at least 0
  int64_t below = 0;  // less
};

// For a rank of `stage`. An observation, not a bound: ranks that were not recorded may be further
// away. A stage with only one recorded rank has no spread of its own, so the furthest of all stages
// are used for it.
PeakSpread SpreadOfApproximated(const graph::Graph& graph, int32_t stage);

}  // namespace prism::replayer
