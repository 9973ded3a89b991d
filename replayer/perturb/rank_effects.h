// What perturbations do to single ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/base/time.h"
#include "replayer/perturb/interference.h"
#include "replayer/perturb/perturbation.h"

namespace prism::replayer {

// What perturbations do to one rank.
struct RankEffect {
  double compute_factor = 1;
  DurationNs delay_ns = 0;
  int32_t kill_iteration = -1;  // stops at the start of this iteration; -1: never
  double host_factor = 1;
  std::vector<Interference> interference;
  std::vector<HostPause> pauses;

  bool operator==(const RankEffect&) const = default;
};

// By rank.
std::vector<RankEffect> RankEffects(uint32_t ranks, const std::vector<Perturbation>& perturbations);

// Iterations after which all host pauses repeat; at most `most`.
int32_t PeriodOf(const std::vector<Perturbation>& perturbations, int32_t most);

// The factor by which the perturbations slow the host of a rank, and a host cost scaled by it.
double HostFactor(const std::vector<Perturbation>& perturbations, Rank rank);
DurationNs SlowedHostCost(DurationNs cost, double factor);

// The pauses that the perturbations cause on the host of a rank.
std::vector<HostPause> HostPauses(const std::vector<Perturbation>& perturbations, Rank rank);

// Fails on a rank, node, factor or period that a job of that many ranks and nodes cannot have.
Status CheckPerturbations(uint32_t ranks,
                          uint32_t nodes,
                          const std::vector<Perturbation>& perturbations);

}  // namespace prism::replayer
