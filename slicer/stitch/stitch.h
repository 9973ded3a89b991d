// Recorded fragments → the graph of all ranks: instantiate each role over its ranks, resolve
// communicators and peers by the layout, compare spot checks with their role.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "graph/graph.h"
#include "graph/job/cluster.h"
#include "slicer/plan.h"

namespace prism::slicer {

struct StitchInput {
  graph::JobSpec job;
  graph::ClusterSpec cluster;
  SlicePlan plan;
  std::vector<graph::Fragment> fragments;  // of plan.RecordedRanks(), any order
  std::vector<Rank> sandbox_ranks;
  std::vector<std::string> assumptions;  // about how the ranks were run; the graph's list begins
                                         // with them
};

// Fails when a group is not a product of coordinates, or a representative is missing. A spot check
// that differs from its role in program or memory becomes a separate role (and a warning
// "role_split" says where it differs: op, both sides). Along approximated axes, if most recorded
// ranks of a role differ from the representative, all in the same way, it is the representative
// that is split off. Does not validate: the caller does.
Result<graph::Graph> Stitch(StitchInput input);

}  // namespace prism::slicer
