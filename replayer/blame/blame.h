// What determines the length of an iteration: the critical path, summed by cause.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/blame/critical_path.h"
#include "replayer/engine/replay_options.h"

namespace prism::replayer {

struct BlameItem {
  std::string what;  // "compute", "communication: tp", "aten::mm", "layer 6", "stage 3", ...
  DurationNs ns = 0;
  int64_t steps = 0;  // of the path
};

// Every list is sorted, largest first.
struct Blame {
  Rank rank;  // where the path ends
  DurationNs iteration_ns = 0;
  int32_t home_stage = 0;  // on which the path is longest
  Rank home_rank;          // of that stage
  int64_t steps = 0;
  int64_t ranks = 0;  // that the path comes by
  // Compute, host, copies and late starts; communication by the name of its communicators; bubble:
  // what other stages do on the path while the home rank has nothing to do, as when the pipeline
  // fills and drains. What they do while it is busy itself is not bubble: the home stage would take
  // that time anyway. Sums to the iteration.
  std::vector<BlameItem> shares;
  std::vector<BlameItem> bubble;  // what the bubble consists of; sums to its share
  std::vector<BlameItem> ops;
  std::vector<BlameItem> layers;  // as the program's markers name them
  std::vector<BlameItem> stages;
  std::vector<BlameItem> links;  // of transfers
};

// `options`: those that the path was found with. Replays once more.
Result<Blame> BlamePath(const graph::Graph& graph,
                        const ReplayOptions& options,
                        const CriticalPath& path);

}  // namespace prism::replayer
