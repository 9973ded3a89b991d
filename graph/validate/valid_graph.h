// No times are reported for a graph that cannot run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "graph/validate/validate.h"

namespace prism::graph {

// Returns lines that say where in the program an op of a rank is; called only for the ops of the
// first fault.
using SourceLines = std::function<std::string(Rank, uint32_t op)>;

// "3 faults:" and the first of them, one line each.
std::string ShownFaults(const Validation& validation, const SourceLines& source = nullptr);

inline constexpr const char* kBufferedSendsCode = "buffered_sends_needed";

// As Validate; but a graph that runs only because sends below p2p.eager_bytes do not wait for their
// receiver has no faults.
Validation ValidateBuffered(const Graph& graph, size_t max_faults = ValidateOptions().max_faults);

// kRunFailed with the first faults of ValidateBuffered. If sends have to be buffered, the graph
// gets the warning kBufferedSendsCode.
Status RefuseInvalid(Graph* graph, const SourceLines& source = nullptr);

struct LoadedGraph {
  std::string path;
  Graph graph;
  int64_t file_bytes = 0;
};

// The graph file of a run if `path` is its output folder, else `path`.
std::string GraphFileOf(const std::string& path);

// kBadFile for the output folder of a run that failed.
Status RefuseFailedRun(const std::string& path);

// `path`: as for GraphFileOf. kBadFile for a run that failed, for a file that is absent or damaged,
// and for a graph that cannot run, with its first faults.
Result<LoadedGraph> LoadValidGraph(const std::string& path);

}  // namespace prism::graph
