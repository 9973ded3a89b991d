// Where ranks are, and which links lie between them. Beside what perturbations do to each
// (replayer/perturb/rank_effects.h), this is what makes ranks of a role differ.
#pragma once

#include <cstdint>
#include <span>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/cost/collective_cost.h"

namespace prism::replayer {

struct ReplayOptions;

// Fails on perturbations (CheckPerturbations) and on places that the job cannot have.
Status CheckOptions(const graph::Graph& graph, const ReplayOptions& options);

// How far the transfers of a collective reach.
PeerLoad::Reach ReachOf(const CommTopology& topology);

// Both arguments must outlive it.
class Placement {
 public:
  Placement(const graph::Graph& graph, const ReplayOptions& options);

  [[nodiscard]] uint32_t NodeOf(uint32_t rank) const;

  // The factor by which the links between the nodes of two ranks are slowed, or sped up.
  [[nodiscard]] double LinkFactor(uint32_t rank_a, uint32_t rank_b) const;

  [[nodiscard]] PeerLoad::Reach Reach(uint32_t rank, uint32_t peer) const;

  // By how much a virtual speed-up changes the transfers of one communicator.
  [[nodiscard]] double CommunicatorFactor(uint32_t comm) const;

  // What the cost of a communicator depends on.
  [[nodiscard]] CommTopology Topology(uint32_t comm) const;

 private:
  [[nodiscard]] double NodeLinkFactor(uint32_t node_a, uint32_t node_b) const;
  [[nodiscard]] double ReachFactor(PeerLoad::Reach reach) const;
  void FindSlowLinks(std::span<const uint32_t> places, CommTopology* topology) const;

  const graph::Graph& graph_;
  const ReplayOptions& options_;
  uint32_t gpus_per_node_ = 1;
  bool slow_links_ = false;
};

}  // namespace prism::replayer
