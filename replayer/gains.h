// How much shorter an iteration would be if one thing cost nothing, or without one perturbation:
// exact, with one replay for each.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"

namespace prism::replayer {

struct ReplayOptions;

struct Gain {
  std::string what;             // "compute", "host", "communication", "communication: tp"
  DurationNs iteration_ns = 0;  // of a steady iteration without it
};

struct GainReport {
  DurationNs iteration_ns = 0;  // with everything
  std::vector<Gain> gains;      // largest first
};

// Compute, the host, all communication, communication over the communicators of each name, and each
// of options.perturbations by its number: "perturbation 1".
Result<GainReport> FindGains(const graph::Graph& graph, const ReplayOptions& options);

}  // namespace prism::replayer
