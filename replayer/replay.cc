#include "replayer/replay.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "replayer/engine/engine.h"
#include "replayer/network/flow_replay.h"

namespace prism::replayer {

Status StallStatus(const Engine& engine) {
  constexpr size_t kLinesShown = 3;
  std::vector<std::string> lines = engine.DescribeStall();
  size_t hidden = lines.size() - std::min(lines.size(), kLinesShown);
  lines.resize(lines.size() - hidden);
  if (hidden > 0) {
    lines.push_back(fmt::format("{} more wait", hidden));
  }
  return RunFailed(fmt::format("the replay stalls: {}", fmt::join(lines, "; ")));
}

Result<ReplayResult> Replay(const graph::Graph& graph, const ReplayOptions& options) {
  if (options.network == NetworkModel::kFlow && options.frozen == nullptr) {
    PRISM_ASSIGN_OR_RETURN(std::vector<ReplayResult> results, ReplayTogether({{&graph, options}}));
    return std::move(results.front());
  }
  PRISM_ASSIGN_OR_RETURN(Engine engine, Engine::Create(graph, options, {}));
  if (!engine.Run()) {
    return StallStatus(engine);
  }
  return engine.Summarise();
}

double HostFactor(const std::vector<Perturbation>& perturbations, Rank rank) {
  double factor = 1;
  for (const Perturbation& perturbation : perturbations) {
    const std::vector<Rank>& ranks = perturbation.ranks;
    if (perturbation.kind == PerturbationKind::kHost &&
        std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) {
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
        std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) {
      pauses.push_back({perturbation.period_iterations, perturbation.duration_ns});
    }
  }
  return pauses;
}

DurationNs SlowedHostCost(DurationNs cost, double factor) {
  return factor == 1 ? cost : std::llround(static_cast<double>(cost) * factor);
}

}  // namespace prism::replayer
