// What perturbations do to one rank, for the simple evaluator: independent of the replayer's code.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "replayer/perturb/jitter.h"
#include "replayer/perturb/perturbation.h"

namespace prism::replayer {
struct ReplayOptions;
}  // namespace prism::replayer

namespace prism::testing {

struct SimpleEffects {
  double factor = 1;
  double host_factor = 1;
  DurationNs delay_ns = 0;
  int32_t last_iteration = 0;  // the rank is killed before this one
  replayer::Jitter jitter;
  std::vector<replayer::Perturbation> periodic;

  SimpleEffects(const replayer::ReplayOptions& options, Rank rank);

  // For how long the host pauses before the iteration.
  [[nodiscard]] DurationNs PauseBefore(int64_t iteration) const;

  // When `work` that begins at `time` is done, nanosecond by nanosecond while the device is not
  // taken away.
  [[nodiscard]] TimeNs WorkedUntil(TimeNs time, DurationNs work) const;

 private:
  // Whether the device works in the nanosecond that begins then, and when that may change.
  [[nodiscard]] std::pair<bool, TimeNs> Works(TimeNs time) const;
};

}  // namespace prism::testing
