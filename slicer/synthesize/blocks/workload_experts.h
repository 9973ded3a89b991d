// A mixture of experts as the built-in workload runs it (launch/trainer/mixture_of_experts.h): op
// by op as recorded, whereas moe.h has the fused kernels of Megatron-Core.
#pragma once

#include <optional>

#include "slicer/synthesize/blocks/feed_forward.h"

namespace prism::slicer {

class WorkloadExperts : public FeedForward {
 public:
  // Experts of a Llama block, without biases.
  WorkloadExperts(const RankShape& rank, ParameterList* parameters);

  void Forward(BlockWriter* writer) const override;
  void Backward(BackwardPart part, BlockWriter* writer) const override;
  void ForwardActivation(BlockWriter* writer) const override;
  void ForwardEverySecondMatmul(BlockWriter* writer) const override;

  [[nodiscard]] bool has_bias() const override { return false; }
  [[nodiscard]] uint32_t bias_parameter() const override { return 0; }

 private:
  void RouteForward(BlockWriter* writer) const;
  void RouteBackward(BlockWriter* writer) const;
  void TakeRows(BlockWriter* writer) const;
  void SumRows(BlockWriter* writer) const;
  void Dispatch(BlockWriter* writer) const;
  void Combine(BlockWriter* writer) const;
  void Exchange(BlockWriter* writer) const;
  void OrderRows(bool by_expert, BlockWriter* writer) const;
  void BatchedForward(const Linear& batched, BlockWriter* writer) const;
  void BatchedBackward(const Linear& batched, BlockWriter* writer) const;

  [[nodiscard]] graph::TensorShape Scores(DataType type) const;
  [[nodiscard]] graph::TensorShape Gates() const;
  [[nodiscard]] graph::TensorShape Choices(DataType type) const;
  [[nodiscard]] graph::TensorShape Places(DataType type) const;
  [[nodiscard]] graph::TensorShape Tokens() const;
  [[nodiscard]] graph::TensorShape Rows() const;

  const RankShape& rank_;
  int64_t experts_ = 0;
  int64_t topk_ = 0;
  int64_t tokens_ = 0;         // that this rank routes per micro-batch
  int64_t capacity_ = 0;       // of them, those that one expert takes
  int64_t senders_ = 0;        // ranks whose rows a local expert processes
  int64_t local_experts_ = 0;  // held by this rank
  Linear router_;
  Linear in_;  // of a local expert; their products are batched
  Linear out_;
  Activation activation_;
  std::optional<DenseFeedForward> shared_;
};

}  // namespace prism::slicer
