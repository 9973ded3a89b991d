// Where in a user's program an op of its graph comes from. The graph has no source lines, so the
// program of one rank is run again as it was recorded, stopped in the NCCL call of the op, and
// asked for its stack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "launch/emulate/run/run_context.h"

namespace prism::launch {

struct SourceQuery {
  Rank rank;  // one that was recorded
  const graph::Program* program = nullptr;
  uint32_t op = 0;            // a collective or a group of sends and receives
  int32_t steps = 1;          // slicer::IterationRule's
  int32_t iteration = 0;      // the recorded one: the rank's number of warm-up iterations
  MeetingPoint meeting = {};  // the values that it was given
};

// The innermost frames of the program's own code. Empty if the program does not reach the op again.
Result<std::vector<std::string>> FindSource(const RunContext& context, const SourceQuery& query);

}  // namespace prism::launch
