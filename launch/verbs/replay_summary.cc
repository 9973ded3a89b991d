#include "launch/verbs/replay_summary.h"

#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "graph/file.h"
#include "launch/run/interval.h"
#include "launch/run/valid_graph.h"
#include "replayer/cost/parameters.h"

namespace prism::launch {

Result<LoadedGraph> LoadValidGraph(const std::string& path) {
  LoadedGraph loaded;
  loaded.path = path;
  PRISM_ASSIGN_OR_RETURN(loaded.graph, graph::ReadGraph(path));
  std::error_code ignored;
  loaded.file_bytes = static_cast<int64_t>(std::filesystem::file_size(path, ignored));
  const Status valid = RefuseInvalid(loaded.graph);
  if (!valid.ok()) {
    return BadFile(fmt::format("{}: {}", path, valid.message()));
  }
  return loaded;
}

Result<replayer::Summary> ReplaySummary(const LoadedGraph& loaded,
                                        const replayer::ReplayOptions& options) {
  const std::vector<std::string> faults =
      replayer::CheckParameters(loaded.graph.cluster.parameters);
  if (!faults.empty()) {
    return BadFile(fmt::format("{}: its cluster cannot be costed: {}; record the job again",
                               loaded.path, faults.front()));
  }
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result,
                         replayer::Replay(loaded.graph, options));
  PRISM_ASSIGN_OR_RETURN(const IterationInterval interval, ReplayInterval(loaded.graph, options));
  replayer::SummaryInput input;
  input.graph = &loaded.graph;
  input.result = &result;
  input.low_ns = interval.low_ns;
  input.high_ns = interval.high_ns;
  input.graph_bytes = loaded.file_bytes;
  return replayer::Summarise(input);
}

}  // namespace prism::launch
