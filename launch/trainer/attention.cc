#include "launch/trainer/attention.h"

namespace prism::launch {
namespace {

// Base of the rotary angles: the value of the first Llama models. It affects values, not kernels.
constexpr double kRotaryBase = 10000.0;

at::Tensor RotateHalf(const at::Tensor& tensor) {
  const std::vector<at::Tensor> halves = tensor.chunk(2, -1);
  return at::cat({halves[1].neg(), halves[0]}, -1);
}

at::Tensor Rotate(const at::Tensor& tensor, const RotaryTables& rotary) {
  return tensor * rotary.cosine + RotateHalf(tensor) * rotary.sine;
}

}  // namespace

RotaryTables MakeRotaryTables(const WorkloadConfig& config, at::TensorOptions options) {
  const int64_t size = config.head_size();
  const auto wide = options.dtype(at::kFloat);
  const at::Tensor exponents = at::arange(0, size, 2, wide) / static_cast<double>(size);
  const at::Tensor frequencies = at::pow(kRotaryBase, exponents).reciprocal();
  const at::Tensor angles = at::outer(at::arange(config.job.seq_len, wide), frequencies);
  const at::Tensor table = at::cat({angles, angles}, -1).view({config.job.seq_len, 1, 1, size});
  return {table.cos().to(options.dtype()), table.sin().to(options.dtype())};
}

at::Tensor CoreAttention::Compute(const std::vector<at::Tensor>& query_key_value) const {
  // [sequence, batch, heads, size] → [batch, heads, sequence, size], as views.
  const at::Tensor query = query_key_value[0].permute({1, 2, 0, 3});
  const at::Tensor key = query_key_value[1].permute({1, 2, 0, 3});
  const at::Tensor value = query_key_value[2].permute({1, 2, 0, 3});
  at::Tensor context;
  if (query.is_cuda()) {
    context = std::get<0>(
        at::_scaled_dot_product_flash_attention(query, key, value, 0.0, /*is_causal=*/true));
  } else {
    const bool grouped = query.size(1) != key.size(1);
    context = at::scaled_dot_product_attention(query, key, value, {}, 0.0, /*is_causal=*/true,
                                               std::nullopt, grouped);
  }
  return context.permute({2, 0, 1, 3}).reshape({query.size(2), query.size(0), -1});
}

std::vector<at::Tensor> SplitProjection(const at::Tensor& mixed,
                                        const WorkloadConfig& config,
                                        const RotaryTables& rotary) {
  const int64_t size = config.head_size();
  const int64_t groups =
      config.job.model.kv_heads / (config.job.parallel.tp * config.job.parallel.cp);
  const int64_t queries = config.job.model.heads / config.job.model.kv_heads;
  const at::Tensor grouped =
      mixed.view({mixed.size(0), mixed.size(1), groups, (queries + 2) * size});
  std::vector<at::Tensor> parts = grouped.split_with_sizes({queries * size, size, size}, -1);
  parts[0] = parts[0].reshape({mixed.size(0), mixed.size(1), groups * queries, size});
  if (rotary.cosine.defined()) {
    parts[0] = Rotate(parts[0], rotary);
    parts[1] = Rotate(parts[1], rotary);
  }
  return parts;
}

}  // namespace prism::launch
