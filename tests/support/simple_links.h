// What the simple evaluator knows of links.
#pragma once

#include "graph/graph.h"
#include "replayer/cost/collective_cost.h"

namespace prism::testing {

struct LinkEnd {
  const graph::Graph& graph;
  const replayer::CollectiveCost& cost;
  Rank rank;
};

// How long one transfer takes at one of its ends among those of its group: each other in its
// direction takes as many bytes of the link as are under way together
// (replayer/cost/collective_cost.h).
DurationNs ShareOfLink(const LinkEnd& end,
                       const graph::PeerGroup& group,
                       const graph::PeerTransfer& mine);

}  // namespace prism::testing
