#include "launch/plan/peak_flops.h"

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

std::string LackingFormat(const graph::ClusterSpec& cluster, graph::Precision precision) {
  const graph::ParameterTable& table = cluster.parameters;
  const bool has_8_bit = table.Value("gpu.peak_fp8_flops") > 0;
  const bool has_4_bit = table.ValueOr("gpu.peak_fp4_flops", 0) > 0;
  const bool asks_8_bit = precision == graph::Precision::kFloat8 ||
                          precision == graph::Precision::kFloat8Block ||
                          precision == graph::Precision::kMxFloat8;
  const bool asks_4_bit = precision == graph::Precision::kNvFloat4;
  if ((asks_8_bit || asks_4_bit) && !has_8_bit) {
    return "precision: the GPU has no 8-bit products, theirs take as long as in 16 bit";
  }
  if (asks_4_bit && !has_4_bit) {
    return "precision: the GPU has no 4-bit products, theirs take as long as in 8 bit";
  }
  // GPUs that scale blocks of 32 in their matrix units have 4-bit formats, too.
  if (precision == graph::Precision::kMxFloat8 && !has_4_bit) {
    return "precision: the GPU has no MX formats, products take as long as in FP8";
  }
  return "";
}

}  // namespace prism::launch
