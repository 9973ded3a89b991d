// The range of an iteration time by the model's spread. Not the interval that
// launch/prediction/job_time.h calibrates on published runs.
#pragma once

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/replay.h"

namespace prism::launch {

// Steady iteration with compute and transfers at the fast and at the slow end of what the cluster's
// preset says about its own spread (spread.compute, spread.comm).
struct SpreadRange {
  DurationNs low_ns = 0;
  DurationNs high_ns = 0;
};

Result<SpreadRange> ReplaySpreadRange(const graph::Graph& graph,
                                      const replayer::ReplayOptions& options);

}  // namespace prism::launch
