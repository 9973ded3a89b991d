// How long an iteration of a rank takes, for the simple evaluator: from its first op (on the stream
// with the most kernel time, if nothing holds back the stream of the first op) to that of the next
// iteration, which was evaluated as well.
#pragma once

#include "graph/graph.h"
#include "replayer/engine/replay_result.h"

namespace prism::testing {

// The length of the last of `iterations`. `times`: of the rank, with one more iteration. -1 if no
// op has a stream.
DurationNs LastIteration(const graph::Graph& graph,
                         const replayer::Timeline& times,
                         int32_t iterations);

}  // namespace prism::testing
