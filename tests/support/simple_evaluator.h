// A deliberately simple evaluator: every rank, every op, maps for everything, no classes, nothing
// precomputed. The engine must agree with it to the nanosecond for every op.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {
struct ReplayOptions;
}  // namespace prism::replayer

namespace prism::testing {

struct SimpleResult {
  bool finished = false;
  std::vector<replayer::Timeline> timelines;  // by rank
};

// Supports iterations and all perturbations; no placement, algorithms or scales.
SimpleResult EvaluateSimply(const graph::Graph& graph, const replayer::ReplayOptions& options);

}  // namespace prism::testing
