#include "launch/accuracy/baseline.h"

#include <cmath>

namespace prism::launch {

double PeakFlops(const graph::ClusterSpec& cluster, graph::Precision precision) {
  const graph::ParameterTable& table = cluster.parameters;
  const double wide = table.Value("gpu.peak_bf16_flops");
  const double narrow = table.Value("gpu.peak_fp8_flops");
  switch (precision) {
    case graph::Precision::kBfloat16:
    case graph::Precision::kFloat16:
      return wide;
    case graph::Precision::kFloat32:
      return table.Value("gpu.peak_tf32_flops");
    case graph::Precision::kFloat8:
    case graph::Precision::kFloat8Block:
    case graph::Precision::kMxFloat8:
      return narrow > 0 ? narrow : wide;
    case graph::Precision::kNvFloat4: {
      const double narrowest = table.ValueOr("gpu.peak_fp4_flops", 0);
      return narrowest > 0 ? narrowest : std::max(narrow, wide);
    }
  }
  return wide;
}

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
