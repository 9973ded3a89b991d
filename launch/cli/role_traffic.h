// What a role communicates in an iteration: its collectives and messages, by communicator and kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace prism::launch {

struct TrafficRow {
  std::string communicator;
  int64_t size = 0;  // ranks
  std::string kind;  // "all_reduce", ..., "send", "recv"
  int64_t calls = 0;
  int64_t bytes = 0;  // of all calls, as graph::CollectiveShape::bytes counts them
};

// The traffic of the role's representative; ordered by communicator slot, then kind.
std::vector<TrafficRow> TrafficOf(const graph::Graph& graph, const graph::Role& role);

}  // namespace prism::launch
