// How long the last iteration of a rank takes, for the simple evaluator: from its first op (of the
// stream with most kernels, where nothing holds back the one of the first op) to when that op could
// begin once more, where nothing in front of it is run again but what the host does.
#pragma once

#include "graph/graph.h"
#include "replayer/replay.h"

namespace prism::testing {

// `times`: of the rank, all ops over. -1 where no op has a stream.
DurationNs LastIteration(const graph::Graph& graph,
                         const replayer::ReplayOptions& options,
                         const replayer::Timeline& times);

}  // namespace prism::testing
