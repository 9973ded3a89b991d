// A virtual speed-up: a part of the job whose durations are all multiplied by one factor. Who waits
// for whom stays as it is, so that a replay with it says exactly what the iteration would take.
//
// A duration is multiplied and rounded before anything else changes it (ReplayOptions::
// compute_scale, perturbations), as if the graph gave it; only slow links and comm_scale are
// multiplied together with the factor.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "replayer/cost/collective_cost.h"

namespace prism::replayer {

struct Speedup {
  double factor = 1;
  // By role and op: kernels, copies, memsets and host gaps. A role without any may have no row.
  std::vector<std::vector<bool>> ops;
  std::vector<bool> hosts;               // by role: what issuing each op costs
  std::vector<bool> communicators;       // by communicator: all its transfers
  std::optional<PeerLoad::Reach> links;  // all transfers that reach as far

  bool operator==(const Speedup&) const = default;

  // Whether one of the lists above, of which the tail may be missing, has `index`.
  static bool Has(const std::vector<bool>& list, uint32_t index) {
    return index < list.size() && list[index];
  }
};

}  // namespace prism::replayer
