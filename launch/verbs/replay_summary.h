// Graph file → replay → summary: what a run prints, from its graph alone.
#pragma once

#include <cstdint>
#include <string>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/replay.h"
#include "replayer/report/summary.h"

namespace prism::launch {

struct LoadedGraph {
  std::string path;
  graph::Graph graph;
  int64_t file_bytes = 0;
};

// kBadFile for a file that is absent, damaged or no graph that can run, with its first faults.
Result<LoadedGraph> LoadValidGraph(const std::string& path);

// The same summary as that of a run which departs from the graph in nothing.
Result<replayer::Summary> ReplaySummary(const LoadedGraph& loaded,
                                        const replayer::ReplayOptions& options);

}  // namespace prism::launch
