// What may be changed in a job between two replays, and the edited job.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/engine/replay_options.h"

namespace prism::replayer {

struct OpDuration {
  uint32_t op = 0;  // a kernel, copy or memset of the role's program
  DurationNs duration_ns = 0;
};

// New durations for ops of ranks of one role, in every iteration.
struct ProgramEdit {
  uint32_t role = 0;
  std::vector<Rank> ranks;  // ascending; empty: all of the role
  std::vector<OpDuration> durations;
};

struct Edit {
  std::vector<ProgramEdit> programs;          // a later one overrules
  std::optional<graph::ClusterSpec> cluster;  // instead of the graph's: link speeds, host costs
  std::optional<ReplayOptions> options;       // instead: perturbations, placement, algorithms
};

struct EditedJob {
  graph::Graph graph;
  ReplayOptions options;
};

// The job as a replay receives it. Ranks that an edit makes differ from the rest of their role get
// a separate role. kInvalidArgument for ops and ranks that the job does not have.
Result<EditedJob> ApplyEdit(const graph::Graph& graph,
                            const ReplayOptions& options,
                            const Edit& edit);

// Whether ApplyEdit takes the program edits.
Status CheckProgramEdits(const graph::Graph& graph, const Edit& edit);

}  // namespace prism::replayer
