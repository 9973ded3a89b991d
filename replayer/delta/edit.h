// What may be changed in a job between two replays, and the job that an edit makes.
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

// Ops of ranks of one role take another time, in every iteration.
struct ProgramEdit {
  uint32_t role = 0;
  std::vector<Rank> ranks;  // ascending; none: all of the role
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

// The job as a full replay would be given it. Ranks that an edit tells apart from others of their
// role get a role of their own. kInvalidArgument for ops and ranks that the job does not have.
Result<EditedJob> ApplyEdit(const graph::Graph& graph,
                            const ReplayOptions& options,
                            const Edit& edit);

// Where `other` is `graph` but for the signatures of kernels: the durations that make the one of
// the other, as `cluster` costs them. Nothing where they differ in more.
std::optional<std::vector<ProgramEdit>> AsDurations(const graph::Graph& graph,
                                                    const graph::Graph& other,
                                                    const graph::ClusterSpec& cluster);

// Whether ApplyEdit takes the program edits.
Status CheckProgramEdits(const graph::Graph& graph, const Edit& edit);

}  // namespace prism::replayer
