// How far ranks that were not recorded may be from the role that serves them (source `like`).
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace prism::replayer {

// Of the recorded ranks of a stage: what their peaks are beside the peak of the stage's role.
struct PeakSpread {
  int64_t ranks = 0;  // recorded ones
  int64_t above = 0;  // bytes of the allocator that the furthest has more, at least 0
  int64_t below = 0;  // less
};

// For a rank of `stage`. What was seen, not a proof: ranks that were not recorded may be further.
// A stage with one recorded rank says nothing of itself, so there the furthest of all stages count.
PeakSpread SpreadOfLike(const graph::Graph& graph, int32_t stage);

}  // namespace prism::replayer
