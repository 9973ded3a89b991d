// The range of an iteration time by the model's spread: the smallest and the largest of three
// times: as computed, with compute and transfers at the fast end of the spread, and at the slow
// end. (Periodic interference may make the middle one shorter or longer than both.) Not the
// interval that launch/plan/job_time.h calibrates on published runs.
#pragma once

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"

namespace prism::replayer {
struct ReplayOptions;
}  // namespace prism::replayer

namespace prism::launch {

// For the steady iteration; the spread is what the cluster's preset states about its own parameters
// (spread.compute, spread.comm). low_ns <= high_ns.
struct ReplayRange {
  DurationNs low_ns = 0;
  DurationNs high_ns = 0;
};

// `iteration_ns` is what Replay(graph, options) gives.
Result<ReplayRange> RangeBySpread(const graph::Graph& graph,
                                  const replayer::ReplayOptions& options,
                                  DurationNs iteration_ns);

}  // namespace prism::launch
