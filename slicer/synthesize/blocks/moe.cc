// A mixture of experts between norm and residual connection, as Megatron-Core's MoE layer with its
// all-to-all dispatcher: router, permutation by expert, all-to-all to the ranks that hold the
// experts, grouped products, and the reverse; a shared expert in parallel. Tokens are spread evenly
// over experts.
#include <algorithm>
#include <optional>

#include "slicer/synthesize/blocks/feed_forward.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;

const char* GroupedGemm(const RankShape& rank) {
  return rank.style.precision == graph::Precision::kNvFloat4 ? "cublasGemmGroupedBatchedEx_nvfp4"
                                                             : "cublasGemmGroupedBatchedEx";
}

// Mean number of those of `parts` equal parts of the experts that hold one of a token's experts, if
// these are drawn uniformly: a given part holds none with probability C(E - E/parts, k) / C(E, k).
double PartsOfToken(const graph::MoeShape& moe, int64_t parts) {
  const auto experts = static_cast<double>(moe.experts);
  const double elsewhere = experts - experts / static_cast<double>(parts);
  double none = 1;
  for (int64_t i = 0; i < moe.topk; ++i) {
    const auto drawn = static_cast<double>(i);
    none *= std::max(0.0, elsewhere - drawn) / (experts - drawn);
  }
  return static_cast<double>(parts) * (1 - none);
}

// Copies of a token that dispatch or combine move. Without fusion one per expert. Fused dispatchers
// send one to each rank that has any of its experts; between nodes one to each such node, from
// where NVLink forwards it (DeepEP, HybridEP). An all-to-all of evenly spread copies sends (ep -
// ranks of a node) / ep of them between nodes: the number of copies is chosen so that this equals
// what really goes there.
double SentCopies(const RankShape& rank) {
  const graph::MoeShape& moe = rank.job.model.moe;
  const int64_t ep = rank.job.parallel.ep;
  const int64_t local = rank.style.moe_node_ranks;
  if (!rank.style.moe_fused_dispatch) {
    return static_cast<double>(moe.topk);
  }
  const double ranks = PartsOfToken(moe, ep);
  if (local == 0 || local >= ep || ep % local != 0) {
    return ranks;
  }
  const int64_t nodes = ep / local;
  const double remote_nodes =
      PartsOfToken(moe, nodes) * static_cast<double>(nodes - 1) / static_cast<double>(nodes);
  return remote_nodes * static_cast<double>(ep) / static_cast<double>(ep - local);
}

class MixtureOfExperts : public FeedForward {
 public:
  MixtureOfExperts(const RankShape& rank, ParameterList* parameters) : rank_(rank) {
    const graph::MoeShape& moe = rank.job.model.moe;
    const graph::ParallelSizes& sizes = rank.job.parallel;
    tokens_ = rank.shard * rank.batch;
    routed_ = tokens_ * moe.topk;
    sent_ = static_cast<int64_t>(static_cast<double>(tokens_) * SentCopies(rank));
    arriving_ =
        rank.style.moe_fused_dispatch
            ? static_cast<int64_t>(static_cast<double>(tokens_) * PartsOfToken(moe, sizes.ep))
            : routed_;
    local_experts_ = std::max<int64_t>(1, moe.experts / sizes.ep);
    // Every rank of the expert-parallel group sends as many tokens as it receives; ranks that
    // divide an expert all process each other's tokens.
    expert_rows_ = std::max<int64_t>(1, routed_ * sizes.etp / local_experts_);
    router_ = parameters->TakeLinear().weight;
    in_ = parameters->TakeLinear();
    out_ = parameters->TakeLinear();
    activation_ = {.rows = {ExpertRows()}, .width = out_.inputs};
    if (moe.shared_expert_ffn > 0) {
      shared_.emplace(rank, parameters);
    }
  }

  void Forward(BlockWriter* writer) const override {
    const bool captured = (rank_.style.graph_parts & graph::kGraphRouter) != 0;
    writer->BeginGraph(captured);
    RouterForward(writer);
    writer->HostGap(rank_.style.moe_router_host_ns);
    Permute(writer);
    AnnounceCounts(writer);
    writer->EndGraph();
    AwaitCounts(writer);
    writer->HostGap(rank_.style.moe_expert_host_ns);
    Dispatch(writer);
    PadRows(writer);
    GroupedForward(in_, writer);
    AddBias(in_.outputs, writer);
    ForwardActivation(writer);
    GroupedForward(out_, writer);
    AddBias(out_.outputs, writer);
    PadRows(writer);
    Combine(writer);
    Unpermute(writer);
    if (shared_) {
      shared_->Forward(writer);
      const graph::TensorShape output = rank_.Outside(rank_.hidden);
      writer->Pointwise("aten::add", {output, output});
    }
  }

  void Backward(BackwardPart part, BlockWriter* writer) const override {
    if (shared_) {
      shared_->Backward(part, writer);
    }
    if (part == BackwardPart::kWeight) {
      GroupedWeightGradient(out_, writer);
      GroupedWeightGradient(in_, writer);
      RouterBackward(part, writer);
      return;
    }
    writer->HostGap(rank_.style.moe_expert_host_ns);
    Permute(writer);
    Dispatch(writer);
    PadRows(writer);
    BiasBackward(out_.outputs, writer);
    GroupedBackward(out_, part, writer);
    if (EagerActivation()) {
      LimitedBackward(writer);
    } else {
      ActivationBackward(rank_, activation_, writer);
    }
    BiasBackward(in_.outputs, writer);
    GroupedBackward(in_, part, writer);
    PadRows(writer);
    Combine(writer);
    Unpermute(writer);
    writer->BeginGraph((rank_.style.graph_parts & graph::kGraphRouter) != 0);
    RouterBackward(part, writer);
    writer->HostGap(rank_.style.moe_router_host_ns);
    writer->EndGraph();
  }

  void ForwardActivation(BlockWriter* writer) const override {
    if (EagerActivation()) {
      LimitedForward(writer);
    } else {
      slicer::ActivationForward(rank_, activation_, writer);
    }
  }

  void ForwardEverySecondMatmul(BlockWriter* writer) const override {
    Linear branch = in_;
    branch.outputs = in_.outputs / (rank_.ffn_matrices - 1);
    GroupedForward(branch, writer);
    ForwardActivation(writer);
  }

  // Of the shared expert; routed ones have none.
  [[nodiscard]] bool has_bias() const override { return shared_ && shared_->has_bias(); }
  [[nodiscard]] uint32_t bias_parameter() const override {
    return shared_ ? shared_->bias_parameter() : 0;
  }

 private:
  // Logits, the largest of them, their weights, and the number of tokens per expert.
  void RouterForward(BlockWriter* writer) const {
    const int64_t experts = rank_.job.model.moe.experts;
    const Product product = {.rows = tokens_,
                             .columns = experts,
                             .depth = rank_.hidden,
                             .transposed_right = true,
                             .input = rank_.dtype,
                             .output = rank_.dtype};
    writer->Matmul("aten::mm", "cublasGemmEx", product,
                   {Tensor(rank_.dtype, {tokens_, rank_.hidden}),
                    Tensor(rank_.dtype, {rank_.hidden, experts})});
    const graph::TensorShape scores = Tensor(DataType::kFloat32, {tokens_, experts});
    writer->Pointwise("aten::copy_", {scores, Tensor(rank_.dtype, {tokens_, experts})});
    writer->Kernel("aten::topk", "sbtopk_gatherTopK", {scores});
    writer->Kernel("aten::_softmax", "softmax_warp_forward",
                   {Tensor(DataType::kFloat32, {tokens_, rank_.job.model.moe.topk})});
    writer->Pointwise("aten::scatter",
                      {scores, Tensor(DataType::kInt64, {tokens_, rank_.job.model.moe.topk})});
    writer->Reduction("aten::sum", {scores});
  }

  void RouterBackward(BackwardPart part, BlockWriter* writer) const {
    const int64_t experts = rank_.job.model.moe.experts;
    const graph::TensorShape scores = Tensor(rank_.dtype, {tokens_, experts});
    const graph::TensorShape weight = Tensor(rank_.dtype, {experts, rank_.hidden});
    if (part != BackwardPart::kWeight) {
      writer->Kernel("aten::_softmax_backward_data", "softmax_warp_backward", {scores, scores});
      writer->Pointwise("aten::scatter",
                        {scores, Tensor(DataType::kInt64, {tokens_, rank_.job.model.moe.topk})});
      const Product input = {.rows = tokens_,
                             .columns = rank_.hidden,
                             .depth = experts,
                             .input = rank_.dtype,
                             .output = rank_.dtype};
      writer->Matmul("aten::mm", "cublasGemmEx", input, {scores, weight});
      const graph::TensorShape gradient = rank_.Outside(rank_.hidden);
      writer->Pointwise("aten::add_", {gradient, gradient});
    }
    if (part != BackwardPart::kInput && !rank_.style.frozen_weights) {
      const Product product = {.rows = experts,
                               .columns = rank_.hidden,
                               .depth = tokens_,
                               .transposed_left = true,
                               .input = rank_.dtype,
                               .output = rank_.dtype};
      writer->Matmul(
          "aten::mm", "cublasGemmEx", product,
          {Tensor(rank_.dtype, {experts, tokens_}), Tensor(rank_.dtype, {tokens_, rank_.hidden})});
      AccumulateGradient(rank_, {experts, rank_.hidden}, router_, writer);
    }
  }

  // One copy of a token for each of its experts, in the order of experts. Dispatchers that gather
  // tokens while sending (DeepEP, HybridEP) send one per rank and copy on arrival.
  void Permute(BlockWriter* writer) const {
    if (!rank_.style.moe_fused_dispatch) {
      writer->Fused("moe_permute", {Tensor(rank_.dtype, {tokens_, rank_.hidden}),
                                    Tensor(rank_.dtype, {routed_, rank_.hidden})});
    }
  }

  // The reverse: the weighted sum of the copies.
  void Unpermute(BlockWriter* writer) const {
    if (!rank_.style.moe_fused_dispatch) {
      writer->Fused("moe_unpermute", {Tensor(rank_.dtype, {routed_, rank_.hidden}),
                                      Tensor(rank_.dtype, {tokens_, rank_.hidden})});
    }
  }

  [[nodiscard]] bool HostNeedsCounts() const {
    return rank_.job.parallel.ep > 1 && !rank_.style.moe_drop_and_pad &&
           rank_.style.host_cost != graph::HostCost::kGraph;
  }

  // Exchanges how many tokens come from every rank.
  void AnnounceCounts(BlockWriter* writer) const {
    if (HostNeedsCounts()) {
      const int64_t ep = rank_.job.parallel.ep;
      const int64_t experts = rank_.job.model.moe.experts;
      writer->Collective(GroupAxis::kExpert, AllGatherOf(DataType::kInt64, ep * experts));
      writer->Copy(experts * DataTypeBytes(DataType::kInt64), graph::kDeviceToHost);
    }
  }

  // The host waits for the counts, to size what follows.
  void AwaitCounts(BlockWriter* writer) const {
    if (HostNeedsCounts()) {
      writer->StreamSync();
    }
  }

  // Sends tokens to the experts, in the order of local experts.
  void Dispatch(BlockWriter* writer) const {
    AllToAll(writer);
    if (rank_.job.parallel.etp > 1) {
      writer->Collective(GroupAxis::kTensor, AllGatherOf(rank_.dtype, ExpertRows() * rank_.hidden));
    }
    OrderByExpert("moe_permute", writer);
  }

  void Combine(BlockWriter* writer) const {
    OrderByExpert("moe_unpermute", writer);
    if (rank_.job.parallel.etp > 1) {
      writer->Collective(GroupAxis::kTensor,
                         ReduceScatterOf(rank_.dtype, ExpertRows() * rank_.hidden));
    }
    AllToAll(writer);
  }

  // What arrives is in the order of the senders.
  void OrderByExpert(const char* fused_name, BlockWriter* writer) const {
    const graph::TensorShape rows = Tensor(rank_.dtype, {ExpertRows(), rank_.hidden});
    if (rank_.style.moe_fused_dispatch) {
      writer->Fused(fused_name, {Tensor(rank_.dtype, {arriving_, rank_.hidden}), rows});
    } else if (local_experts_ > 1 && rank_.job.parallel.ep > 1) {
      writer->Fused("sort_chunks", {rows, rows});
    }
  }

  // Concurrent with the compute of another micro-batch: nothing here waits for it, but the next one
  // queues after it, so the part that compute does not hide stays visible.
  void AllToAll(BlockWriter* writer) const {
    if (rank_.job.parallel.ep == 1) {
      return;
    }
    const graph::CollectiveShape shape = AllToAllOf(rank_.dtype, sent_ * rank_.hidden);
    if (rank_.style.moe_overlap) {
      writer->Start(GroupAxis::kExpert, shape);
    } else {
      writer->Collective(GroupAxis::kExpert, shape);
    }
  }

  void GroupedForward(const Linear& grouped, BlockWriter* writer) const {
    Cast(grouped.inputs, writer);
    const Product product = {.rows = expert_rows_,
                             .columns = grouped.outputs,
                             .depth = grouped.inputs,
                             .batch = local_experts_,
                             .transposed_right = true,
                             .input = rank_.matmul,
                             .output = rank_.dtype};
    writer->Matmul("grouped_gemm", GroupedGemm(rank_), product,
                   {Tensor(rank_.matmul, {local_experts_, expert_rows_, grouped.inputs}),
                    Tensor(rank_.matmul, {local_experts_, grouped.inputs, grouped.outputs})});
  }

  void GroupedBackward(const Linear& grouped, BackwardPart part, BlockWriter* writer) const {
    Cast(grouped.outputs, writer);
    const Product product = {.rows = expert_rows_,
                             .columns = grouped.inputs,
                             .depth = grouped.outputs,
                             .batch = local_experts_,
                             .input = rank_.matmul,
                             .output = rank_.dtype};
    writer->Matmul("grouped_gemm", GroupedGemm(rank_), product,
                   {Tensor(rank_.matmul, {local_experts_, expert_rows_, grouped.outputs}),
                    Tensor(rank_.matmul, {local_experts_, grouped.outputs, grouped.inputs})});
    if (part == BackwardPart::kAll) {
      GroupedWeightGradient(grouped, writer);
    }
  }

  void GroupedWeightGradient(const Linear& grouped, BlockWriter* writer) const {
    if (rank_.style.frozen_weights) {
      return;
    }
    const bool fused = rank_.style.gradient_accumulation_fusion;
    const Product product = {.rows = grouped.outputs,
                             .columns = grouped.inputs,
                             .depth = expert_rows_,
                             .batch = local_experts_,
                             .transposed_left = true,
                             .input = rank_.matmul,
                             .output = fused ? rank_.gradient : rank_.dtype};
    writer->Matmul("grouped_gemm", GroupedGemm(rank_), product,
                   {Tensor(rank_.matmul, {local_experts_, grouped.outputs, expert_rows_}),
                    Tensor(rank_.matmul, {local_experts_, expert_rows_, grouped.inputs})});
    if (fused) {
      writer->Ready(grouped.weight);
    } else {
      AccumulateGradient(rank_, {local_experts_, grouped.outputs, grouped.inputs}, grouped.weight,
                         writer);
    }
  }

  // Products in 8 bit want rows of every expert in multiples of 16: Transformer Engine's grouped
  // layers copy their input to padded rows, and back, unless the dispatcher has padded.
  void PadRows(BlockWriter* writer) const {
    if (rank_.matmul == DataType::kFloat8 && !rank_.style.moe_fused_dispatch &&
        !rank_.style.moe_drop_and_pad) {
      const graph::TensorShape rows = Tensor(rank_.dtype, {ExpertRows(), rank_.hidden});
      writer->Fused("multi_padding", {rows, rows});
    }
  }

  void Cast(int64_t width, BlockWriter* writer) const {
    if (rank_.matmul == DataType::kFloat8) {
      CastToFloat8(Tensor(rank_.dtype, {ExpertRows(), width}), writer);
    }
  }

  // Expert by expert, then concatenated.
  void AddBias(int64_t width, BlockWriter* writer) const {
    if (EagerActivation()) {
      const graph::TensorShape rows = Tensor(rank_.dtype, {ExpertRows(), width});
      writer->Pointwise("aten::add", {rows});
      writer->Kernel("aten::cat", "CatArrayBatchedCopy", {rows});
    }
  }

  void BiasBackward(int64_t width, BlockWriter* writer) const {
    if (EagerActivation()) {
      const graph::TensorShape rows = Tensor(rank_.dtype, {ExpertRows(), width});
      writer->Reduction("aten::sum", {rows});
      writer->Kernel("aten::cat", "CatArrayBatchedCopy", {rows});
    }
  }

  // Megatron-Core has no fused kernel for it outside graphs of whole iterations.
  [[nodiscard]] bool EagerActivation() const {
    return rank_.job.model.moe.biased && rank_.style.host_cost == graph::HostCost::kEager;
  }

  // Both branches are clamped, the gate's GeLU is one compiled kernel, 1 is added to the other
  // branch, then their product, and the weights of the routes in fp32.
  void LimitedForward(BlockWriter* writer) const {
    const graph::TensorShape branch = Tensor(rank_.dtype, {ExpertRows(), activation_.width});
    writer->Pointwise("aten::clamp", {branch});
    writer->Pointwise("aten::clamp", {branch});
    writer->Fused("quick_gelu", {branch, branch});
    writer->Pointwise("aten::add", {branch});
    writer->Pointwise("aten::mul", {branch, branch});
    writer->Pointwise("aten::mul", {Tensor(DataType::kFloat32, {ExpertRows(), activation_.width})});
    writer->Pointwise("aten::_to_copy", {branch});
  }

  void LimitedBackward(BlockWriter* writer) const {
    const graph::TensorShape branch = Tensor(rank_.dtype, {ExpertRows(), activation_.width});
    const graph::TensorShape wide = Tensor(DataType::kFloat32, {ExpertRows(), activation_.width});
    writer->Pointwise("aten::_to_copy", {wide});
    writer->Pointwise("aten::mul", {wide});
    writer->Reduction("aten::sum", {wide});
    writer->Pointwise("aten::mul", {branch, branch});
    writer->Pointwise("aten::mul", {branch, branch});
    writer->Fused("quick_gelu_backward", {branch, branch, branch});
    for (int i = 0; i < 2; ++i) {  // of the two limits
      writer->Pointwise("aten::ge", {branch});
      writer->Pointwise("aten::where", {branch, branch});
    }
    writer->Kernel("aten::cat", "CatArrayBatchedCopy", {branch, branch});
  }

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

}  // namespace

std::unique_ptr<FeedForward> MakeMixtureOfExperts(const RankShape& rank,
                                                  ParameterList* parameters) {
  return std::make_unique<MixtureOfExperts>(rank, parameters);
}

}  // namespace prism::slicer
