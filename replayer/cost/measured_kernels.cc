#include "replayer/cost/measured_kernels.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace prism::replayer {
namespace {

constexpr std::string_view kPrefix = "kernel.";

std::string MatmulKey(const KernelView& view) {
  const graph::MatmulShape& shape = view.signature.matmul;
  const bool tf32 = shape.input == graph::DataType::kFloat32 &&
                    view.kernel.find("tf32") != std::string_view::npos;
  return MeasuredKernelKey("matmul", tf32 ? "tf32" : graph::DataTypeName(shape.input),
                           {shape.n, shape.m, shape.k, std::max<int64_t>(1, shape.batch)});
}

// "" where the inputs are not queries and keys of four dimensions.
std::string AttentionKey(const KernelView& view) {
  const bool backward = IsAttentionBackward(view);
  const auto& inputs = view.signature.inputs;
  const size_t first = backward ? 1 : 0;
  if (inputs.size() < first + 2 || inputs[first].dims.size() != 4 ||
      inputs[first + 1].dims.size() != 4) {
    return {};
  }
  // Of the two middle lengths the sequence is the longer one, as in ComputeCost.
  const std::vector<int64_t>& q = inputs[first].dims;
  const std::vector<int64_t>& k = inputs[first + 1].dims;
  return MeasuredKernelKey(
      backward ? "attention_backward" : "attention", graph::DataTypeName(inputs[first].dtype),
      {std::max(q[1], q[2]), std::max(k[1], k[2]), q[3], q[0] * std::min(q[1], q[2])});
}

std::string OpKey(const KernelView& view) {
  const auto& inputs = view.signature.inputs;
  if (inputs.empty() || inputs[0].dims.empty() || inputs[0].dims.back() == 0) {
    return {};
  }
  const int64_t width = inputs[0].dims.back();
  return MeasuredKernelKey(BareOpName(view.framework_op), graph::DataTypeName(inputs[0].dtype),
                           {inputs[0].ElementCount() / width, width, 1, 1});
}

}  // namespace

std::string MeasuredKernelKey(std::string_view kind,
                              std::string_view type,
                              const KernelSizes& sizes) {
  return fmt::format("{}{}.{}.{}", kPrefix, kind, type, fmt::join(sizes, "x"));
}

bool IsMeasuredKernelKey(std::string_view key) {
  return key.starts_with(kPrefix);
}

MeasuredKernels::MeasuredKernels(const graph::ParameterTable& parameters) {
  for (const graph::Parameter& parameter : parameters.all()) {
    if (IsMeasuredKernelKey(parameter.key)) {
      times_.emplace(parameter.key, std::llround(parameter.value));
    }
  }
}

std::optional<DurationNs> MeasuredKernels::Find(const KernelView& view) const {
  if (times_.empty()) {
    return std::nullopt;
  }
  std::string key;
  if (view.signature.matmul.m > 0) {
    key = MatmulKey(view);
  } else {
    key = IsAttentionKernel(view) ? AttentionKey(view) : OpKey(view);
  }
  const auto found = times_.find(key);
  return found == times_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace prism::replayer
