#include "launch/plan/run_cost.h"

namespace prism::launch {

RunCost CostOfRun(const SearchProblem& problem,
                  int64_t gpus,
                  double iteration_s,
                  int64_t host_bytes) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  constexpr double kSecondsOfDay = 86'400;
  constexpr double kHoursOfDay = 24;
  constexpr double kHoursOfYear = 8'766;
  constexpr double kWattsOfKilowatt = 1'000;
  const StatedNumbers& costs = problem.costs;
  RunCost run;
  run.days = IterationsOf(problem) * iteration_s / kSecondsOfDay;
  run.gpu_hours = run.days * kHoursOfDay * static_cast<double>(gpus);
  if (const auto rent = costs.Value("gpu_hour_usd")) {
    const double of_host =
        problem.host.Value("gib_hour_usd").value_or(0) * static_cast<double>(host_bytes) / kGib;
    run.usd_per_hour = (*rent + of_host) * static_cast<double>(gpus);
    run.price_usd = (*rent + of_host) * run.gpu_hours;
  }
  if (const auto power = costs.Value("gpu_power_w")) {
    run.energy_kwh = run.gpu_hours * *power / kWattsOfKilowatt * costs.Value("pue").value_or(1);
    if (const auto price = costs.Value("energy_usd_per_kwh")) {
      run.energy_usd = *price * *run.energy_kwh;
    }
    if (const auto carbon = costs.Value("carbon_kg_per_kwh")) {
      run.carbon_kg = *carbon * *run.energy_kwh;
    }
  }
  const auto capital = costs.Value("gpu_capital_usd");
  const auto years = costs.Value("capital_years");
  if (capital.has_value() && years.value_or(0) > 0) {
    run.capital_usd = *capital * run.gpu_hours / (*years * kHoursOfYear);
  }
  return run;
}

}  // namespace prism::launch
