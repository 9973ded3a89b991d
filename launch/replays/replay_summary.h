// A replay of a graph as its summary (replayer/report/summary.h), with the range that the cost
// model's spread leaves.
#pragma once

#include <cstdint>

#include "graph/base/status.h"
#include "graph/valid_graph.h"
#include "replayer/replay.h"
#include "replayer/report/summary.h"

namespace prism::launch {

// Whether a summary looks for perturbations without effect, which takes separate replays.
enum class Warns : uint8_t { kNot, kOfNoEffect };

// That of a run which departs from the graph in nothing. `result` is of the graph and `options`.
Result<replayer::Summary> SummaryOf(const graph::LoadedGraph& loaded,
                                    const replayer::ReplayOptions& options,
                                    const replayer::ReplayResult& result,
                                    Warns warns);

// The same, with the replay.
Result<replayer::Summary> ReplaySummary(const graph::LoadedGraph& loaded,
                                        const replayer::ReplayOptions& options,
                                        Warns warns);

}  // namespace prism::launch
