// How long an iteration of a rank takes, for the simple evaluator: from its first op (of the stream
// with most kernel time, where nothing holds back the one of the first op) to that of the iteration
// behind, which was evaluated as well.
#pragma once

#include "graph/graph.h"
#include "replayer/replay.h"

namespace prism::testing {

// Of the last of `iterations`. `times`: of the rank, with one iteration more. -1 where no op has a
// stream.
DurationNs LastIteration(const graph::Graph& graph,
                         const replayer::Timeline& times,
                         int32_t iterations);

}  // namespace prism::testing
