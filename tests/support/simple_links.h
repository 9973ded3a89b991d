// What the simple evaluator knows about links.
#pragma once

#include <span>

#include "graph/graph.h"
#include "replayer/cost/collective_cost.h"

namespace prism::replayer {
struct ReplayOptions;
}  // namespace prism::replayer

namespace prism::testing {

struct LinkEnd {
  const graph::Graph& graph;
  const replayer::CollectiveCost& cost;
  Rank rank;
};

// How long one transfer of the group of `op` takes at one of its ends among those of its group, and
// inside a node among those of its batch (replayer/engine/role_plan.h): each other one in its
// direction takes as many bytes of the link as are in flight at the same time
// (replayer/cost/collective_cost.h).
DurationNs ShareOfLink(const LinkEnd& end, uint32_t op, const graph::PeerTransfer& mine);

// The slow-down of the slowest link that a ring over the nodes of these ranks crosses.
double SlowestOfRing(const graph::Graph& graph,
                     const replayer::ReplayOptions& options,
                     std::span<const uint32_t> ranks);

// The same for links that a message between any two of these ranks crosses.
double SlowestOfPairs(const graph::Graph& graph,
                      const replayer::ReplayOptions& options,
                      std::span<const uint32_t> ranks);

DurationNs Slowed(DurationNs duration, double factor);

}  // namespace prism::testing
