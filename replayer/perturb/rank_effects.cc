#include "replayer/perturb/rank_effects.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace prism::replayer {
namespace {

// What slows one rank's compute or host in all, at most: keeps every duration within int64
// nanoseconds.
constexpr double kMaxSlowing = 1e6;

// Shorter periods would make the engine step through millions of them.
constexpr DurationNs kShortestPeriodNs = 10'000;

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
            fmt::format("{} {} would be slowed by {} in all; at most {} is possible",
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
    return InvalidArgument(
        fmt::format("interference of {} ns every {} ns; it must be shorter than its period, which "
                    "must be at least {} ns",
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
                   "perturbation of a link from node {} to itself; a link joins two nodes",
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

}  // namespace

std::vector<RankEffect> RankEffects(uint32_t ranks,
                                    const std::vector<Perturbation>& perturbations) {
  std::vector<RankEffect> effects(ranks);
  for (const Perturbation& perturbation : perturbations) {
    for (Rank rank : perturbation.ranks) {
      Apply(perturbation, &effects[rank.value()]);
    }
  }
  return effects;
}

double HostFactor(const std::vector<Perturbation>& perturbations, Rank rank) {
  double factor = 1;
  for (const Perturbation& perturbation : perturbations) {
    const std::vector<Rank>& ranks = perturbation.ranks;
    if (perturbation.kind == PerturbationKind::kHost &&
        std::ranges::find(ranks, rank) != ranks.end()) {
      factor *= perturbation.factor;
    }
  }
  return factor;
}

std::vector<HostPause> HostPauses(const std::vector<Perturbation>& perturbations, Rank rank) {
  std::vector<HostPause> pauses;
  for (const Perturbation& perturbation : perturbations) {
    const std::vector<Rank>& ranks = perturbation.ranks;
    if (perturbation.kind == PerturbationKind::kPeriodic && perturbation.period_iterations > 0 &&
        std::ranges::find(ranks, rank) != ranks.end()) {
      pauses.push_back({perturbation.period_iterations, perturbation.duration_ns});
    }
  }
  return pauses;
}

int32_t PeriodOf(const std::vector<Perturbation>& perturbations, int32_t most) {
  int64_t period = 1;
  for (const Perturbation& perturbation : perturbations) {
    period = std::min<int64_t>(
        most, std::lcm(period, std::max<int64_t>(1, perturbation.period_iterations)));
  }
  return static_cast<int32_t>(std::max<int64_t>(1, period));
}

DurationNs SlowedHostCost(DurationNs cost, double factor) {
  return factor == 1 ? cost : std::llround(static_cast<double>(cost) * factor);
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
          fmt::format("perturbation by factor {}; it must not be negative", perturbation.factor));
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

}  // namespace prism::replayer
