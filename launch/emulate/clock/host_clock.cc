#include "launch/emulate/clock/host_clock.h"

#include "replayer/cost/parameters.h"
#include "replayer/perturb/rank_effects.h"

namespace prism::launch {
namespace {

constexpr size_t kKeptEnds = 4096;  // of older ops; what is forgotten is asked again

}  // namespace

HostClock::HostClock(const graph::Graph& graph,
                     Rank rank,
                     const std::vector<replayer::Perturbation>& perturbations)
    : pauses_(replayer::HostPauses(perturbations, rank)) {
  const double factor = replayer::HostFactor(perturbations, rank);
  const std::vector<DurationNs> costs = replayer::HostCosts(graph.cluster.parameters);
  const graph::Program& program = graph.role_of(rank).program;
  cumulative_.reserve(size_t{program.size()} + 1);
  cumulative_.push_back(0);
  for (uint32_t op = 0; op < program.size(); ++op) {
    const bool gap = program.kind[op] == graph::OpKind::kHostGap;
    const bool free = (program.flags[op] & graph::kLaunchedWithPrevious) != 0;
    const DurationNs cost =
        gap    ? program.value[op]
        : free ? 0
               : replayer::SlowedHostCost(costs[static_cast<size_t>(program.kind[op])], factor);
    cumulative_.push_back(cumulative_.back() + cost);
  }
}

TimeNs HostClock::Cumulative(replayer::OpPosition position) const {
  const auto size = static_cast<replayer::OpPosition>(cumulative_.size()) - 1;
  const replayer::OpPosition iteration = position / size;
  TimeNs time = iteration * cumulative_.back() + cumulative_[static_cast<size_t>(position % size)];
  for (const replayer::HostPause& pause : pauses_) {
    time += iteration / pause.iterations * pause.duration_ns;
  }
  return time;
}

void HostClock::Set(replayer::OpPosition position, TimeNs time) {
  known_ = true;
  base_ = time - Cumulative(position);
}

std::optional<TimeNs> HostClock::At(replayer::OpPosition position) const {
  if (!known_) {
    return std::nullopt;
  }
  return base_ + Cumulative(position);
}

void HostClock::SetEnd(replayer::OpPosition position, TimeNs end) {
  if (ends_.size() >= kKeptEnds) {
    ends_.erase(ends_.begin());
  }
  ends_[position] = end;
}

std::optional<TimeNs> HostClock::EndOf(replayer::OpPosition position) const {
  const auto found = ends_.find(position);
  return found == ends_.end() ? std::nullopt : std::optional<TimeNs>(found->second);
}

}  // namespace prism::launch
