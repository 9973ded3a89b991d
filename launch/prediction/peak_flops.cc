#include "launch/prediction/peak_flops.h"

#include <algorithm>

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

}  // namespace prism::launch
