// Recorded fragments → the graph of all ranks: instantiate each role over its ranks, resolve
// communicators and peers by the layout, compare spot checks with their role.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/cluster.h"
#include "graph/fragment.h"
#include "graph/graph.h"
#include "slicer/plan.h"

namespace prism::slicer {

struct StitchInput {
  graph::JobSpec job;
  graph::ClusterSpec cluster;
  SlicePlan plan;
  std::vector<graph::Fragment> fragments;  // of plan.RecordedRanks(), any order
  std::vector<Rank> sandbox_ranks;
  std::vector<std::string> assumptions;  // of how the ranks were run; the graph's begin with them
};

// Fails when a group is no product of coordinates, when a representative is missing. A spot check
// that differs from its role in program or memory becomes a role of its own when it differs by
// itself (and a warning "role_split" says where it departs: op, both sides). Along marked axes a
// representative that most recorded ranks of its role depart from, all in the same way, is the one
// that is split off. Does not validate: the caller does.
Result<graph::Graph> Stitch(StitchInput input);

}  // namespace prism::slicer
