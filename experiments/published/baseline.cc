#include "experiments/published/baseline.h"

#include <cmath>

#include "launch/plan/peak_flops.h"

namespace prism::launch {

double IdealSeconds(const graph::JobSpec& job,
                    const graph::TrainingStyle& style,
                    const graph::ClusterSpec& cluster) {
  constexpr double kFrozenShare = 2.0 / 3.0;  // no weight gradients
  const double flops = graph::HardwareFlops(job) * (style.frozen_weights ? kFrozenShare : 1.0);
  const double rate =
      static_cast<double>(job.parallel.world_size()) * PeakFlops(cluster, style.precision);
  const auto slots = static_cast<double>(job.microbatches() * job.parallel.vpp);
  const double bubble = 1 + static_cast<double>(job.parallel.pp - 1) / slots;
  return flops / rate * bubble;
}

double FitEfficiency(const std::vector<BaselinePoint>& points) {
  if (points.empty()) {
    return 0;
  }
  double sum = 0;
  for (const BaselinePoint& point : points) {
    sum += std::log(point.ideal / point.measured);
  }
  return std::exp(sum / static_cast<double>(points.size()));
}

}  // namespace prism::launch
