// One transformer layer of this rank: GPT (layer norm, biases, GELU) or Llama (RMS norm, rotary,
// grouped queries, SwiGLU, dense or a mixture of experts), pre-norm, split over tensor parallelism
// as Megatron does.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launch/trainer/attention.h"
#include "launch/trainer/checkpoint.h"
#include "launch/trainer/markers.h"
#include "launch/trainer/mixture_of_experts.h"
#include "launch/trainer/parameters.h"
#include "launch/trainer/tensor_parallel.h"

namespace prism::launch {

// Scale and, for layer norm, shift. Replicated over tp; under sequence parallelism each tp rank
// sees a part of the tokens, so the gradient is a partial sum.
struct Norm {
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;  // null: RMS norm
};

Norm DeclareNorm(ParameterSet* parameters, const WorkloadConfig& config, const std::string& name);
at::Tensor ApplyNorm(const Norm& norm, const at::Tensor& input);

// Shared by the layers of a chunk; outlives them.
struct LayerContext {
  const WorkloadConfig* config = nullptr;
  TensorParallel tp;
  const Group* cp = nullptr;
  const Group* ep = nullptr;
  RotaryTables rotary;                   // undefined tensors for GPT
  ShardedParameters* sharded = nullptr;  // null if parameters are whole between passes
};

class TransformerLayer : public Recomputable {
 public:
  // `number` counts from 0 over the whole model. `context` outlives the layer.
  TransformerLayer(int64_t number, const LayerContext& context, ParameterSet* parameters);

  // Applies the layer under a marker, with the job's recomputation.
  at::Tensor Forward(const at::Tensor& input);

  // The layer itself; inputs is one tensor.
  [[nodiscard]] at::Tensor Compute(const std::vector<at::Tensor>& inputs) const override;

 private:
  // A parallel linear layer's parameters; bias may be null.
  struct Linear {
    Parameter* weight = nullptr;
    Parameter* bias = nullptr;
  };

  enum class Split : uint8_t { kColumns, kRows };

  void DeclareMlp(ParameterSet* parameters, const std::string& name, int64_t width);
  Linear DeclareLinear(ParameterSet* parameters,
                       const std::string& name,
                       std::vector<int64_t> shape,
                       Split split) const;
  [[nodiscard]] at::Tensor Column(const Linear& linear, const at::Tensor& input) const;
  [[nodiscard]] at::Tensor RowWithResidual(const Linear& linear,
                                           const at::Tensor& input,
                                           const at::Tensor& residual) const;
  [[nodiscard]] at::Tensor Attention(const at::Tensor& input) const;
  [[nodiscard]] at::Tensor Activation(const at::Tensor& input) const;

  std::string name_;
  const LayerContext& context_;
  CoreAttention core_attention_;
  Norm attention_norm_;
  Norm mlp_norm_;
  Linear query_key_value_;
  Linear projection_;
  std::unique_ptr<MixtureOfExperts> experts_;
  Linear mlp_in_;  // of a layer without experts, or of the shared expert if any
  Linear mlp_out_;
  size_t place_;                             // in the chunk
  std::unique_ptr<Marker> backward_marker_;  // open while this layer's backward runs
  std::function<void()> begin_backward_;
  std::function<void()> end_backward_;
};

}  // namespace prism::launch
