// The range of an iteration time by the model's spread: the least and the greatest of the time as
// computed, with compute and transfers at the fast end of the spread, and at the slow end. At
// its own regular times, interference may leave the middle one shorter or longer than both. Not
// the interval that launch/prediction/job_time.h calibrates on published runs.
#pragma once

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/replay.h"

namespace prism::launch {

// Of the steady iteration; the spread is what the cluster's preset says about its own parameters
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
