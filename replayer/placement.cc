#include "replayer/placement.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/divide.h"

namespace prism::replayer {
namespace {

// What slows one rank's compute or host in all, at most: keeps every duration within int64
// nanoseconds.
constexpr double kMaxSlowing = 1e6;

// Shorter periods would make the engine step through millions of them.
constexpr DurationNs kShortestPeriodNs = 10'000;

uint32_t GpusPerNode(const graph::Graph& graph) {
  return static_cast<uint32_t>(graph.cluster.gpus_per_node);
}

Status CheckSlowing(uint32_t ranks,
                    const std::vector<Perturbation>& perturbations,
                    PerturbationKind kind) {
  std::vector<double> factors(ranks, 1);
  for (const Perturbation& perturbation : perturbations) {
    if (perturbation.kind != kind) {
      continue;
    }
    for (Rank rank : perturbation.ranks) {
      double& factor = factors[rank.value()];
      factor *= perturbation.factor;
      if (!(factor <= kMaxSlowing)) {
        return InvalidArgument(
            fmt::format("{} {} is slowed {} times in all; at most {} times",
                        kind == PerturbationKind::kHost ? "the host of rank" : "rank", rank.value(),
                        factor, kMaxSlowing));
      }
    }
  }
  return OkStatus();
}

Status CheckPeriod(const Perturbation& periodic) {
  const bool fits = periodic.period_iterations > 0 || (periodic.period_ns >= kShortestPeriodNs &&
                                                       periodic.duration_ns < periodic.period_ns);
  if (periodic.duration_ns < 0 || !fits) {
    return InvalidArgument(fmt::format(
        "interference of {} ns every {} ns: it must be shorter than its period, and that at least "
        "{} ns",
        periodic.duration_ns, periodic.period_ns, kShortestPeriodNs));
  }
  return OkStatus();
}

Status CheckLink(const Perturbation& link, uint32_t nodes) {
  for (int32_t node : {link.node_a, link.node_b}) {
    if (node < 0 || static_cast<uint32_t>(node) >= nodes) {
      return InvalidArgument(
          fmt::format("perturbation of node {}: the job has {} nodes", node, nodes));
    }
  }
  return link.node_a != link.node_b
             ? OkStatus()
             : InvalidArgument(fmt::format(
                   "perturbation of a link from node {} to itself: links join two nodes",
                   link.node_a));
}

void Apply(const Perturbation& perturbation, RankEffect* effect) {
  switch (perturbation.kind) {
    case PerturbationKind::kStraggler:
      effect->compute_factor *= perturbation.factor;
      break;
    case PerturbationKind::kLate:
      effect->delay_ns += perturbation.delay_ns;
      break;
    case PerturbationKind::kKill: {
      const bool earlier =
          effect->kill_iteration < 0 || perturbation.iteration < effect->kill_iteration;
      effect->kill_iteration = earlier ? perturbation.iteration : effect->kill_iteration;
      break;
    }
    case PerturbationKind::kHost:
      effect->host_factor *= perturbation.factor;
      break;
    case PerturbationKind::kPeriodic:
      if (perturbation.period_iterations > 0) {
        effect->pauses.push_back({perturbation.period_iterations, perturbation.duration_ns});
      } else if (perturbation.duration_ns > 0) {
        effect->interference.push_back({perturbation.period_ns, perturbation.duration_ns});
      }
      break;
    case PerturbationKind::kLink:
    case PerturbationKind::kJitter:
    case PerturbationKind::kFail:
      break;  // not of single ranks
  }
}

// A GPU for each rank, none twice.
Status CheckPlacement(uint32_t ranks, const std::vector<uint32_t>& placement) {
  if (!placement.empty() && placement.size() != ranks) {
    return InvalidArgument(
        fmt::format("a placement of {} ranks: the job has {}", placement.size(), ranks));
  }
  std::vector<uint32_t> places = placement;
  std::sort(places.begin(), places.end());
  const auto twice = std::adjacent_find(places.begin(), places.end());
  return twice == places.end() ? OkStatus()
                               : InvalidArgument(fmt::format("two ranks on GPU {}", *twice));
}

uint32_t Nodes(const graph::Graph& graph, const ReplayOptions& options) {
  uint32_t gpus = graph.ranks.size();
  for (uint32_t place : options.placement) {
    gpus = std::max(gpus, place + 1);
  }
  return DivideUp(gpus, GpusPerNode(graph));
}

}  // namespace

std::vector<RankEffect> RankEffects(uint32_t ranks, const ReplayOptions& options) {
  std::vector<RankEffect> effects(ranks);
  for (const Perturbation& perturbation : options.perturbations) {
    for (Rank rank : perturbation.ranks) {
      Apply(perturbation, &effects[rank.value()]);
    }
  }
  return effects;
}

Status CheckPerturbations(uint32_t ranks,
                          uint32_t nodes,
                          const std::vector<Perturbation>& perturbations) {
  for (const Perturbation& perturbation : perturbations) {
    for (Rank rank : perturbation.ranks) {
      if (rank.value() >= ranks) {
        return InvalidArgument(
            fmt::format("perturbation of rank {}: the job has {} ranks", rank.value(), ranks));
      }
    }
    if (perturbation.factor < 0) {
      return InvalidArgument(
          fmt::format("perturbation by factor {}: must not be negative", perturbation.factor));
    }
    if (perturbation.kind == PerturbationKind::kPeriodic) {
      PRISM_RETURN_IF_ERROR(CheckPeriod(perturbation));
    } else if (perturbation.kind == PerturbationKind::kLink) {
      PRISM_RETURN_IF_ERROR(CheckLink(perturbation, nodes));
    }
  }
  PRISM_RETURN_IF_ERROR(CheckSlowing(ranks, perturbations, PerturbationKind::kStraggler));
  return CheckSlowing(ranks, perturbations, PerturbationKind::kHost);
}

Status CheckOptions(const graph::Graph& graph, const ReplayOptions& options) {
  PRISM_RETURN_IF_ERROR(CheckPlacement(graph.ranks.size(), options.placement));
  return CheckPerturbations(graph.ranks.size(), Nodes(graph, options), options.perturbations);
}

Placement::Placement(const graph::Graph& graph, const ReplayOptions& options)
    : graph_(graph), options_(options), gpus_per_node_(GpusPerNode(graph)) {
  slow_links_ =
      std::any_of(options.perturbations.begin(), options.perturbations.end(),
                  [](const Perturbation& p) { return p.kind == PerturbationKind::kLink; });
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
  return slow_links_ ? NodeLinkFactor(NodeOf(rank_a), NodeOf(rank_b)) : 1;
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
    std::sort(moved.begin(), moved.end());
    places = moved;
  }
  CommTopology topology = TopologyOf(places, graph_.cluster.gpus_per_node);
  if (slow_links_) {
    FindSlowLinks(places, &topology);
  }
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
    return std::binary_search(nodes.begin(), nodes.end(), static_cast<uint32_t>(node));
  };
  for (const Perturbation& p : options_.perturbations) {
    if (p.kind == PerturbationKind::kLink && holds(p.node_a) && holds(p.node_b)) {
      topology->pair_factor = std::max(topology->pair_factor, p.factor);
    }
  }
}

}  // namespace prism::replayer
