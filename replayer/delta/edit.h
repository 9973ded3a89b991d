// What may be changed in a job between two replays, and the edited job.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/base/time.h"
#include "graph/graph.h"
#include "replayer/replay.h"

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
  std::optional<graph::Role> role_program;    // instead of the roles of the same name

  [[nodiscard]] bool ReplacesProgram(const graph::Role& role) const {
    return role_program && role_program->name == role.name;
  }
};

struct EditedJob {
  graph::Graph graph;
  ReplayOptions options;
};

// The job as a full replay would receive it. Ranks that an edit makes differ from the rest of their
// role get a separate role. kInvalidArgument for ops and ranks that the job does not have.
Result<EditedJob> ApplyEdit(const graph::Graph& graph,
                            const ReplayOptions& options,
                            const Edit& edit);

// If `other` differs from `graph` only in the signatures of kernels: the durations, as `cluster`
// costs them, that turn `graph` into `other`. Null where they differ in more.
std::optional<std::vector<ProgramEdit>> AsDurations(const graph::Graph& graph,
                                                    const graph::Graph& other,
                                                    const graph::ClusterSpec& cluster);

// Whether ApplyEdit takes the program edits.
Status CheckProgramEdits(const graph::Graph& graph, const Edit& edit);

}  // namespace prism::replayer
