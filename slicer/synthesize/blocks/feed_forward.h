// The second half of a layer between its norm and the residual connection: a dense feed-forward, or
// a mixture of experts.
#pragma once

#include <memory>

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/blocks/block_writer.h"
#include "slicer/synthesize/blocks/linear.h"
#include "slicer/synthesize/blocks/mlp.h"
#include "slicer/synthesize/blocks/parameter_list.h"

namespace prism::slicer {

class FeedForward {
 public:
  virtual ~FeedForward() = default;

  virtual void Forward(BlockWriter* writer) const = 0;
  virtual void Backward(BackwardPart part, BlockWriter* writer) const = 0;

  // What selective recomputation repeats: the activation, and also every second matrix product.
  virtual void ForwardActivation(BlockWriter* writer) const = 0;
  virtual void ForwardEverySecondMatmul(BlockWriter* writer) const = 0;

  // The layer's output has a bias that the residual connection adds, parameter `bias_parameter`.
  [[nodiscard]] virtual bool has_bias() const = 0;
  [[nodiscard]] virtual uint32_t bias_parameter() const = 0;
};

// Column-parallel, activation, row-parallel.
class DenseFeedForward : public FeedForward {
 public:
  DenseFeedForward(const RankShape& rank, ParameterList* parameters);

  void Forward(BlockWriter* writer) const override;
  void Backward(BackwardPart part, BlockWriter* writer) const override;
  void ForwardActivation(BlockWriter* writer) const override;
  void ForwardEverySecondMatmul(BlockWriter* writer) const override;

  [[nodiscard]] bool has_bias() const override { return out_.bias; }
  [[nodiscard]] uint32_t bias_parameter() const override { return out_.weight + 1; }

 private:
  void AdaptBranches(decltype(AdapterForward) adapt, BlockWriter* writer) const;

  const RankShape& rank_;
  Linear in_;
  Linear out_;
  Activation activation_;
};

// A mixture of experts as Megatron-Core's MoE layer, with fused kernels (moe.cc).
std::unique_ptr<FeedForward> MakeMixtureOfExperts(const RankShape& rank, ParameterList* parameters);

// The same as the built-in workload runs it, op by op (workload_experts.cc).
std::unique_ptr<FeedForward> MakeWorkloadExperts(const RankShape& rank, ParameterList* parameters);

}  // namespace prism::slicer
