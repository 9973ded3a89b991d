// A mixture of experts between norm and residual connection, as Megatron-Core's MoE layer with its
// all-to-all dispatcher: router, permutation by expert, all-to-all to the ranks that hold the
// experts, grouped products, and the reverse; a shared expert in parallel. Tokens are spread evenly
// over experts.
#pragma once

#include <optional>

#include "slicer/synthesize/blocks/feed_forward.h"

namespace prism::slicer {

class MixtureOfExperts : public FeedForward {
 public:
  MixtureOfExperts(const RankShape& rank, ParameterList* parameters);

  void Forward(BlockWriter* writer) const override;
  void Backward(BackwardPart part, BlockWriter* writer) const override;
  void ForwardActivation(BlockWriter* writer) const override;
  void ForwardEverySecondMatmul(BlockWriter* writer) const override;

  // Of the shared expert; routed ones have none.
  [[nodiscard]] bool has_bias() const override { return shared_ && shared_->has_bias(); }
  [[nodiscard]] uint32_t bias_parameter() const override {
    return shared_ ? shared_->bias_parameter() : 0;
  }

 private:
  void RouterForward(BlockWriter* writer) const;
  void RouterBackward(BackwardPart part, BlockWriter* writer) const;
  void Permute(BlockWriter* writer) const;
  void Unpermute(BlockWriter* writer) const;
  [[nodiscard]] bool HostNeedsCounts() const;
  void AnnounceCounts(BlockWriter* writer) const;
  void AwaitCounts(BlockWriter* writer) const;
  void Dispatch(BlockWriter* writer) const;
  void Combine(BlockWriter* writer) const;
  void OrderByExpert(const char* fused_name, BlockWriter* writer) const;
  void AllToAll(BlockWriter* writer) const;
  void GroupedForward(const Linear& grouped, BlockWriter* writer) const;
  void GroupedBackward(const Linear& grouped, BackwardPart part, BlockWriter* writer) const;
  void GroupedWeightGradient(const Linear& grouped, BlockWriter* writer) const;
  void PadRows(BlockWriter* writer) const;
  void Cast(int64_t width, BlockWriter* writer) const;
  void AddBias(int64_t width, BlockWriter* writer) const;
  void BiasBackward(int64_t width, BlockWriter* writer) const;
  [[nodiscard]] bool EagerActivation() const;
  void LimitedForward(BlockWriter* writer) const;
  void LimitedBackward(BlockWriter* writer) const;

  [[nodiscard]] int64_t ExpertRows() const { return local_experts_ * expert_rows_; }

  const RankShape& rank_;
  int64_t tokens_ = 0;         // of a micro-batch on this rank, before routing
  int64_t routed_ = 0;         // copies of them, one per expert
  int64_t sent_ = 0;           // copies sent, as if all-to-all spread them evenly
  int64_t arriving_ = 0;       // copies that arrive, before they are copied to local experts
  int64_t local_experts_ = 0;  // held by this rank
  int64_t expert_rows_ = 0;    // routed tokens that one local expert processes
  uint32_t router_ = 0;
  Linear in_;  // of a local expert; their products are grouped
  Linear out_;
  Activation activation_;
  std::optional<DenseFeedForward> shared_;
};

}  // namespace prism::slicer
