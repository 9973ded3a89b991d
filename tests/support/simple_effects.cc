#include "tests/support/simple_effects.h"

#include <algorithm>

#include "replayer/engine/replay_options.h"

namespace prism::testing {

using replayer::PerturbationKind;

SimpleEffects::SimpleEffects(const replayer::ReplayOptions& options, Rank rank)
    : last_iteration(options.iterations) {
  for (const replayer::Perturbation& p : options.perturbations) {
    jitter.Add(p);
    if (std::find(p.ranks.begin(), p.ranks.end(), rank) == p.ranks.end()) {
      continue;
    }
    factor *= p.kind == PerturbationKind::kStraggler ? p.factor : 1;
    host_factor *= p.kind == PerturbationKind::kHost ? p.factor : 1;
    delay_ns += p.kind == PerturbationKind::kLate ? p.delay_ns : 0;
    if (p.kind == PerturbationKind::kKill) {
      last_iteration = std::min(last_iteration, p.iteration);
    } else if (p.kind == PerturbationKind::kPeriodic) {
      periodic.push_back(p);
    }
  }
}

DurationNs SimpleEffects::PauseBefore(int64_t iteration) const {
  DurationNs pause = 0;
  for (const replayer::Perturbation& p : periodic) {
    if (iteration > 0 && p.period_iterations > 0 && iteration % p.period_iterations == 0) {
      pause += p.duration_ns;
    }
  }
  return pause;
}

std::pair<bool, TimeNs> SimpleEffects::Works(TimeNs time) const {
  bool works = true;
  TimeNs change = time + kNsPerSecond;
  for (const replayer::Perturbation& p : periodic) {
    if (p.period_iterations == 0 && p.duration_ns > 0) {
      const TimeNs phase = time % p.period_ns;
      const bool stands = time >= p.period_ns && phase < p.duration_ns;
      works = works && !stands;
      change = std::min(change, time + (stands ? p.duration_ns : p.period_ns) - phase);
    }
  }
  return {works, change};
}

TimeNs SimpleEffects::WorkedUntil(TimeNs time, DurationNs work) const {
  while (work > 0) {
    const auto [works, change] = Works(time);
    const TimeNs next = works ? std::min(change, time + work) : change;
    work -= works ? next - time : 0;
    time = next;
  }
  return time;
}

}  // namespace prism::testing
