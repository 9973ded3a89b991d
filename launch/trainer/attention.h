// Self-attention between the two parallel linear layers: this rank's heads over the whole sequence.
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "launch/trainer/args.h"
#include "launch/trainer/checkpoint.h"

namespace prism::launch {

// Rotation tables [sequence, 1, 1, head size] of rotary position embedding, angles base^(-2i/d).
struct RotaryTables {
  at::Tensor cosine;
  at::Tensor sine;
};

RotaryTables MakeRotaryTables(const WorkloadConfig& config, at::TensorOptions options);

// Causal attention of query [sequence, batch, heads, size] over key and value [sequence, batch,
// kv heads, size] → [sequence, batch, heads * size]. Flash attention on a CUDA device.
class CoreAttention : public Recomputable {
 public:
  [[nodiscard]] at::Tensor Compute(const std::vector<at::Tensor>& query_key_value) const override;
};

// Splits the output of the fused projection, [sequence, batch, kv groups * (queries per group + 2)
// * size], into query, key and value; rotates if there are tables.
std::vector<at::Tensor> SplitProjection(const at::Tensor& mixed,
                                        const WorkloadConfig& config,
                                        const RotaryTables& rotary);

}  // namespace prism::launch
