#include "replayer/engine/placement.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/divide.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/speedup.h"
#include "replayer/perturb/rank_effects.h"

namespace prism::replayer {
namespace {

uint32_t GpusPerNode(const graph::Graph& graph) {
  return static_cast<uint32_t>(graph.cluster.gpus_per_node);
}

// A GPU for each rank, none twice.
Status CheckPlacement(uint32_t ranks, const std::vector<uint32_t>& placement) {
  if (!placement.empty() && placement.size() != ranks) {
    return InvalidArgument(
        fmt::format("the placement has {} ranks, but the job has {}", placement.size(), ranks));
  }
  std::vector<uint32_t> places = placement;
  std::ranges::sort(places);
  const auto twice = std::adjacent_find(places.begin(), places.end());
  return twice == places.end()
             ? OkStatus()
             : InvalidArgument(fmt::format("the placement puts two ranks on GPU {}", *twice));
}

uint32_t Nodes(const graph::Graph& graph, const ReplayOptions& options) {
  uint32_t gpus = graph.ranks.size();
  for (uint32_t place : options.placement) {
    gpus = std::max(gpus, place + 1);
  }
  return DivideUp(gpus, GpusPerNode(graph));
}

}  // namespace

Status CheckOptions(const graph::Graph& graph, const ReplayOptions& options) {
  PRISM_RETURN_IF_ERROR(CheckPlacement(graph.ranks.size(), options.placement));
  return CheckPerturbations(graph.ranks.size(), Nodes(graph, options), options.perturbations);
}

Placement::Placement(const graph::Graph& graph, const ReplayOptions& options)
    : graph_(graph), options_(options), gpus_per_node_(GpusPerNode(graph)) {
  slow_links_ = std::ranges::any_of(options.perturbations, [](const Perturbation& p) {
    return p.kind == PerturbationKind::kLink;
  });
}

PeerLoad::Reach ReachOf(const CommTopology& topology) {
  return topology.nodes > 1   ? PeerLoad::Reach::kNetwork
         : topology.size == 1 ? PeerLoad::Reach::kSelf
                              : PeerLoad::Reach::kNode;
}

uint32_t Placement::NodeOf(uint32_t rank) const {
  return (options_.placement.empty() ? rank : options_.placement[rank]) / gpus_per_node_;
}

double Placement::NodeLinkFactor(uint32_t node_a, uint32_t node_b) const {
  double factor = 1;
  for (const Perturbation& p : options_.perturbations) {
    if (p.kind != PerturbationKind::kLink) {
      continue;
    }
    auto a = static_cast<uint32_t>(p.node_a);
    auto b = static_cast<uint32_t>(p.node_b);
    if ((a == node_a && b == node_b) || (a == node_b && b == node_a)) {
      factor = std::max(factor, p.factor);
    }
  }
  return factor;
}

double Placement::LinkFactor(uint32_t rank_a, uint32_t rank_b) const {
  const double slow = slow_links_ ? NodeLinkFactor(NodeOf(rank_a), NodeOf(rank_b)) : 1;
  return slow * ReachFactor(Reach(rank_a, rank_b));
}

double Placement::ReachFactor(PeerLoad::Reach reach) const {
  const Speedup* speedup = options_.speedup.get();
  return speedup != nullptr && speedup->links == reach ? speedup->factor : 1;
}

double Placement::CommunicatorFactor(uint32_t comm) const {
  const Speedup* speedup = options_.speedup.get();
  return speedup != nullptr && Speedup::Has(speedup->communicators, comm) ? speedup->factor : 1;
}

PeerLoad::Reach Placement::Reach(uint32_t rank, uint32_t peer) const {
  return rank == peer                   ? PeerLoad::Reach::kSelf
         : NodeOf(rank) == NodeOf(peer) ? PeerLoad::Reach::kNode
                                        : PeerLoad::Reach::kNetwork;
}

CommTopology Placement::Topology(uint32_t comm) const {
  const std::span<const uint32_t> members = graph_.communicators.members_of(CommId(comm));
  std::vector<uint32_t> moved;
  std::span<const uint32_t> places = members;
  if (!options_.placement.empty()) {
    for (uint32_t member : members) {
      moved.push_back(options_.placement[member]);
    }
    std::ranges::sort(moved);
    places = moved;
  }
  CommTopology topology = TopologyOf(places, graph_.cluster.gpus_per_node);
  if (slow_links_) {
    FindSlowLinks(places, &topology);
  }
  const double faster = CommunicatorFactor(comm) * ReachFactor(ReachOf(topology));
  topology.slow_factor *= faster;
  topology.pair_factor *= faster;
  const std::string& name = graph_.string(StringId(graph_.communicators.name[comm]));
  for (const ForcedAlgorithm& forced : options_.algorithms) {
    if (forced.communicator.empty() || forced.communicator == name) {
      topology.algorithm = forced.algorithm;
    }
  }
  return topology;
}

// NCCL's ring visits the nodes in order and returns to the first; a slow link matters to those
// communicators whose ring crosses it. Sends and receives cross all links between their nodes.
void Placement::FindSlowLinks(std::span<const uint32_t> places, CommTopology* topology) const {
  std::vector<uint32_t> nodes;
  for (uint32_t place : places) {
    if (nodes.empty() || nodes.back() != place / gpus_per_node_) {
      nodes.push_back(place / gpus_per_node_);
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    topology->slow_factor =
        std::max(topology->slow_factor, NodeLinkFactor(nodes[i], nodes[(i + 1) % nodes.size()]));
  }
  const auto holds = [&](int32_t node) {
    return std::ranges::binary_search(nodes, static_cast<uint32_t>(node));
  };
  for (const Perturbation& p : options_.perturbations) {
    if (p.kind == PerturbationKind::kLink && holds(p.node_a) && holds(p.node_b)) {
      topology->pair_factor = std::max(topology->pair_factor, p.factor);
    }
  }
}

}  // namespace prism::replayer
