// Who is to blame for the length of an iteration: the critical path, added up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "replayer/blame/critical_path.h"

namespace prism::replayer {

struct BlameItem {
  std::string what;  // "compute", "communication: tp", "aten::mm", "layer 6", "stage 3", ...
  DurationNs ns = 0;
  int64_t steps = 0;  // of the path
};

// Every list with the largest first.
struct Blame {
  Rank rank;  // where the path ends
  DurationNs iteration_ns = 0;
  int32_t home_stage = 0;  // on which the path is longest
  int64_t steps = 0;
  int64_t ranks = 0;  // that the path comes by
  // Communication by the name of its communicators; compute, host, copies and late starts of the
  // home stage; bubble: those of all other stages, for which the home stage waits while the
  // pipeline fills and drains. Sums to the iteration.
  std::vector<BlameItem> shares;
  std::vector<BlameItem> bubble;  // what the bubble consists of; sums to its share
  std::vector<BlameItem> ops;
  std::vector<BlameItem> layers;  // as the program's markers name them
  std::vector<BlameItem> stages;
  std::vector<BlameItem> links;  // of transfers
};

// `options` as the path was found with.
Blame BlamePath(const graph::Graph& graph, const ReplayOptions& options, const CriticalPath& path);

}  // namespace prism::replayer
