// Several jobs on one network: what each loses to the others (`prism replay --job`).
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/validate/valid_graph.h"
#include "launch/inputs/options.h"

namespace prism::replayer {
struct ReplayOptions;
}  // namespace prism::replayer

namespace prism::launch {

// `specs`: GRAPH[:FIRST_NODE], one per further job; by default it begins after the last node so
// far. The first job begins at node 0; its cluster's network connects all. Prints each job's
// iteration time by itself and together with the others.
Result<std::string> ReplayOnSharedNetwork(const graph::LoadedGraph& first,
                                          const replayer::ReplayOptions& options,
                                          const std::vector<std::string>& specs,
                                          OutputFormat format);

}  // namespace prism::launch
