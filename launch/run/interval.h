// What master.cc and the verbs share about replaying: the proof before it and the interval after.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/replay.h"

namespace prism::launch {

// kRunFailed with the first faults when the graph cannot run. `source` adds lines that say where in
// the program an op of a rank is; asked for the ops of the first fault only.
using SourceLines = std::function<std::string(Rank, uint32_t op)>;
Status RefuseInvalid(const graph::Graph& graph, const SourceLines& source = nullptr);

// Steady iteration with compute and transfers at the fast and at the slow end of what the cluster's
// preset says about its own spread (spread.compute, spread.comm).
struct IterationInterval {
  DurationNs low_ns = 0;
  DurationNs high_ns = 0;
};

Result<IterationInterval> ReplayInterval(const graph::Graph& graph,
                                         const replayer::ReplayOptions& options);

}  // namespace prism::launch
