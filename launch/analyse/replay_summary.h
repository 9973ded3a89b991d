// Replays a graph and summarises it (replayer/report/summary.h), with the range from the cost
// model's spread.
#pragma once

#include <cstdint>

#include "graph/base/status.h"
#include "graph/validate/valid_graph.h"
#include "replayer/report/summary.h"

namespace prism::replayer {
struct ReplayOptions;
struct ReplayResult;
}  // namespace prism::replayer

namespace prism::launch {

// Whether a summary checks for perturbations without effect, which takes additional replays.
enum class Warns : uint8_t { kNot, kOfNoEffect };

// The summary of a run that follows the graph exactly. `result` is of the graph and `options`.
Result<replayer::Summary> SummaryOf(const graph::LoadedGraph& loaded,
                                    const replayer::ReplayOptions& options,
                                    const replayer::ReplayResult& result,
                                    Warns warns);

// The same, with the replay.
Result<replayer::Summary> ReplaySummary(const graph::LoadedGraph& loaded,
                                        const replayer::ReplayOptions& options,
                                        Warns warns);

}  // namespace prism::launch
