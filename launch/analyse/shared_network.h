// Several jobs on one network: what each loses to the others (`prism replay --job`).
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/validate/valid_graph.h"
#include "launch/inputs/options.h"
#include "launch/inputs/placement_policy.h"
#include "replayer/engine/replay_options.h"

namespace prism::launch {

struct SharedJobs {
  const graph::LoadedGraph& first;
  const replayer::ReplayOptions& options;  // of the first; of the others without perturbations
  std::vector<std::string> more;           // GRAPH[:FIRST_NODE], one per further job
  PlacementPolicy placement = PlacementPolicy::kPacked;
};

// By default each job begins after the last node so far; the first begins at node 0, and its
// cluster's network connects all. Every job repeats until the slowest has done its iterations.
// Prints each job's iteration time by itself and together with the others, as a mean over the
// iterations during which all run.
Result<std::string> ReplayOnSharedNetwork(const SharedJobs& jobs, OutputFormat format);

}  // namespace prism::launch
