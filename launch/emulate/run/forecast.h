// What a run of the built-in program is going to show, from the description of its job alone:
// nothing is run, for --dry-run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/emulate/run/run_context.h"
#include "replayer/report/summary.h"

namespace prism::launch {

// What prism search says of the same plan of the same job, and all that makes that another time:
// its framework's kernels, overlap and host costs.
struct SearchAnswer {
  std::string framework;
  double iteration_time_s = 0;
  std::vector<std::string> differences;  // empty: the times are equal
};

struct Forecast {
  // Of the synthesised graph, which equals the recorded one op by op; where ranks of a stage are
  // placed on nodes in different ways, at least that of the run. Null with what is left out:
  // perturbations, a network with shared links, a measured host time, a real GPU.
  std::optional<double> iteration_time_s;
  std::optional<SearchAnswer> search;  // null with the time, and for a plan that it has not
  // Allocated and reserved bytes by the simulated allocator (replayer/memory/stage_memory.h), the
  // rest by OutsideAllocatorBytes; tests/sim/forecast_test.cc says how near they are.
  replayer::PeakMemory peak_memory;
};

// Null for a user's program and for a graph that is reused.
std::optional<Forecast> ForecastOf(const RunContext& context);

}  // namespace prism::launch
