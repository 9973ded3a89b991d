// What training takes beyond the time of an iteration: days, GPU-hours, money, energy, carbon.
#pragma once

#include <cstdint>
#include <optional>

#include "launch/plan/plan.h"

namespace prism::launch {

// Values that the cluster's costs do not state are empty. Nothing is added for restarts, evaluation
// or idle time.
struct RunCost {
  double days = 0;
  double gpu_hours = 0;
  std::optional<double> usd_per_hour;  // rent of all GPUs
  std::optional<double> price_usd;     // rent over the run
  std::optional<double> energy_kwh;    // of the site: times pue
  std::optional<double> energy_usd;
  std::optional<double> carbon_kg;
  std::optional<double> capital_usd;  // for owned GPUs: their price over their lifetime
};

// `host_bytes`: the host memory that each GPU's rank takes, which costs extra if it has its own
// price.
RunCost CostOfRun(const SearchProblem& problem,
                  int64_t gpus,
                  double iteration_s,
                  int64_t host_bytes = 0);

}  // namespace prism::launch
