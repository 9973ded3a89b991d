// Graph × costs × perturbations → virtual time of every rank.
//
//   Result<ReplayResult> result = Replay(graph, options);
//
// Costs that depend on neither rank nor time (of a kernel, of a collective) come from
// replayer/cost; what waits for what is in replayer/engine/engine.h.
#pragma once

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

// Replays the job. Fails, naming ranks and ops, when the graph stalls or a killed rank makes it
// stall.
Result<ReplayResult> Replay(const graph::Graph& graph, const ReplayOptions& options);

}  // namespace prism::replayer
