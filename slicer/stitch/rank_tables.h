// What the slots of a role refer to, relative to a rank, and the tables of all ranks that follow
// from that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "graph/graph.h"
#include "graph/job/rank_grid.h"
#include "slicer/stitch/table_merger.h"

namespace prism::slicer {

// A communicator slot. `ordinal` distinguishes process groups with the same name and members: how
// many of them the program created before this one.
struct CommunicatorPattern {
  std::string name;
  graph::GridGroup group;
  uint32_t ordinal = 0;

  bool operator==(const CommunicatorPattern&) const = default;
};

struct SlotPatterns {
  std::vector<CommunicatorPattern> communicators;  // by communicator slot
  std::vector<graph::GridPeer> peers;              // by peer slot

  bool operator==(const SlotPatterns&) const = default;
};

// The patterns that the fragment's rank recorded. Fails when a group is not a product of
// coordinates, or a peer is not a rank of the job.
Result<SlotPatterns> PatternsOf(const graph::RankGrid& grid, const graph::Fragment& fragment);

// Fills communicators, communicator and peer columns of `graph` from its `ranks.role` and the
// patterns by role. Communicators are numbered by the lowest rank that uses them, then by ordinal,
// then by slot. Fails when a rank is outside a group that its role uses.
Status FillRankTables(const graph::RankGrid& grid,
                      const std::vector<SlotPatterns>& patterns,
                      TableMerger& merger,
                      graph::Graph& graph);

}  // namespace prism::slicer
