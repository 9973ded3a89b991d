// The feed-forward part of a layer as a mixture of experts, like Megatron-Core's MoE layer with its
// all-to-all dispatcher: router, all-to-all to the ranks that hold the experts, SwiGLU experts,
// all-to-all back. The experts of a rank are one batched matrix product, which equal numbers of
// rows make possible (expert_routing.h).
//
// With tensor parallelism every expert is divided over tp (Megatron's default, expert tensor
// parallelism of the same degree), which requires sequence parallelism: a tp rank routes its part
// of the sequence, and received rows are gathered over tp, so that each rank processes all rows
// with its part of the weights.
#pragma once

#include <string>

#include "launch/trainer/parameters.h"
#include "launch/trainer/tensor_parallel.h"

namespace prism::launch {

class MixtureOfExperts {
 public:
  // Declares router and local experts under `name`. All arguments outlive it.
  MixtureOfExperts(const std::string& name,
                   const WorkloadConfig& config,
                   const TensorParallel& tp,
                   const Group& ep,
                   ParameterSet* parameters);

  // Applies the layer to normed hidden states [sequence, batch, hidden]; does not add the residual.
  [[nodiscard]] at::Tensor Apply(const at::Tensor& input) const;

 private:
  [[nodiscard]] at::Tensor Dispatch(const at::Tensor& rows) const;
  [[nodiscard]] at::Tensor Combine(const at::Tensor& rows) const;

  const WorkloadConfig& config_;
  const TensorParallel& tp_;
  const Group& ep_;
  int64_t local_experts_;
  Parameter* router_ = nullptr;
  Parameter* in_ = nullptr;   // [experts, 2, width, hidden]
  Parameter* out_ = nullptr;  // [experts, hidden, width]
};

}  // namespace prism::launch
