// Several jobs on one network: what each loses to the others (`prism replay --job`).
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/valid_graph.h"
#include "launch/options/options.h"
#include "replayer/replay.h"

namespace prism::launch {

// `specs`: GRAPH[:FIRST_NODE] a further job, after the last node so far unless said otherwise. The
// first job begins at node 0; its cluster's network joins all. Prints each job's iteration time
// alone and together.
Result<std::string> ReplayOnSharedNetwork(const graph::LoadedGraph& first,
                                          const replayer::ReplayOptions& options,
                                          const std::vector<std::string>& specs,
                                          OutputFormat format);

}  // namespace prism::launch
