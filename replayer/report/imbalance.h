// How unevenly the members of communicators compute.
#pragma once

#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/engine/replay_result.h"

namespace prism::replayer {

// Of the communicator of that name whose members compute most unevenly.
struct Imbalance {
  std::string communicator;  // name
  double ratio = 1;          // largest over mean compute of its members
  Rank slowest;
  DurationNs largest_ns = 0;
  DurationNs mean_ns = 0;
  bool is_straggler = false;  // one rank alone is slower, the others are alike
};

// By name, the most uneven first, without those within 1 % of even. Communicators across pipeline
// stages, whose ranks differ by design, are left out.
std::vector<Imbalance> FindImbalance(const graph::Graph& graph, const ReplayResult& result);

}  // namespace prism::replayer
