// Random graphs that can be replayed, and perturbations for them.
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "replayer/engine/replay_options.h"

namespace prism::testing {

// A random graph on the test cluster. From "nothing is eager" to "almost everything is".
graph::Graph ReplayableGraph(uint64_t seed);

// One to three iterations. Every third case has a straggler, every fourth a late rank, every fifth
// noise, every seventh a slow link, fewer a slow host, interference and further shapes of noise.
replayer::ReplayOptions RandomPerturbations(const graph::Graph& graph, uint64_t seed);

}  // namespace prism::testing
