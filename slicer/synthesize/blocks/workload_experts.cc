// A mixture of experts as the built-in workload runs it (launch/trainer/mixture_of_experts.h): op
// by op as recorded, whereas moe.cc has the fused kernels of Megatron-Core.
#include <optional>

#include "graph/base/check.h"
#include "graph/job/expert_capacity.h"
#include "slicer/synthesize/blocks/feed_forward.h"
#include "slicer/synthesize/blocks/launch_rules.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;

// The function that libtorch calls for a product of `batch` pairs of matrices.
const char* BatchedGemm(int64_t batch) {
  return batch == 1 ? "cublasGemmEx" : "cublasGemmStridedBatchedEx";
}

constexpr const char* kTopk = "gatherTopK";

constexpr const char* kScatter = "_scatter_gather_elementwise_kernel";

class WorkloadExperts : public FeedForward {
 public:
  // Experts of a Llama block, without biases.
  WorkloadExperts(const RankShape& rank, ParameterList* parameters) : rank_(rank) {
    const graph::MoeShape& moe = rank.job.model.moe;
    const graph::ParallelSizes& sizes = rank.job.parallel;
    PRISM_CHECK(rank.llama && !moe.biased);
    experts_ = moe.experts;
    topk_ = moe.topk;
    tokens_ = rank.shard * rank.batch;
    capacity_ = graph::ExpertCapacity(moe, tokens_);
    senders_ = int64_t{sizes.ep} * sizes.etp;
    local_experts_ = moe.experts / sizes.ep;
    router_ = parameters->TakeLinear();
    in_ = parameters->TakeLinear();
    out_ = parameters->TakeLinear();
    activation_ = {.rows = {local_experts_, senders_ * capacity_}, .width = out_.inputs};
    if (moe.shared_expert_ffn > 0) {
      shared_.emplace(rank, parameters);
    }
  }

  void Forward(BlockWriter* writer) const override {
    ReplicatedForward(rank_, router_, writer);
    RouteForward(writer);
    TakeRows(writer);
    Dispatch(writer);
    BatchedForward(in_, writer);
    ForwardActivation(writer);
    BatchedForward(out_, writer);
    Combine(writer);
    writer->Pointwise("aten::mul", {Rows(), Tensor(rank_.dtype, {experts_ * capacity_, 1})});
    SumRows(writer);
    if (shared_) {
      shared_->Forward(writer);
      const graph::TensorShape output = rank_.Outside(rank_.hidden);
      writer->Pointwise("aten::add", {output, output});
    }
  }

  // The workload's schedules have only whole backward passes. Gradients of the weighted sum are
  // those of the weights first.
  void Backward(BackwardPart part, BlockWriter* writer) const override {
    PRISM_CHECK(part == BackwardPart::kAll);
    const graph::TensorShape output = rank_.Outside(rank_.hidden);
    if (shared_) {
      shared_->Backward(part, writer);
    }
    TakeRows(writer);
    writer->Pointwise("aten::mul", {Rows(), Rows()});
    writer->Pointwise("aten::mul", {Rows(), Tensor(rank_.dtype, {experts_ * capacity_, 1})});
    RowReduction("aten::sum", Rows(), writer);
    Dispatch(writer);
    BatchedBackward(out_, writer);
    slicer::ActivationBackward(rank_, activation_, writer);
    BatchedBackward(in_, writer);
    Combine(writer);
    SumRows(writer);
    RouteBackward(writer);
    ReplicatedBackward(rank_, router_, part, writer);
    writer->Pointwise("aten::add_", {Tokens(), Tokens()});
    if (shared_) {
      writer->Pointwise("aten::add_", {output, output});
    }
  }

  void ForwardActivation(BlockWriter* writer) const override {
    slicer::ActivationForward(rank_, activation_, writer);
  }

  void ForwardEverySecondMatmul(BlockWriter* writer) const override { ForwardActivation(writer); }

  [[nodiscard]] bool has_bias() const override { return false; }
  [[nodiscard]] uint32_t bias_parameter() const override { return 0; }

 private:
  // Tokens choose experts, then experts choose tokens.
  void RouteForward(BlockWriter* writer) const {
    writer->Pointwise("aten::copy_", {Scores(DataType::kFloat32), Scores(rank_.dtype)});
    writer->Kernel("aten::topk", kTopk, {Scores(DataType::kFloat32)});
    writer->Kernel("aten::_softmax", "softmax_warp_forward", {Choices(DataType::kFloat32)});
    writer->Pointwise("aten::fill_", {Gates()});
    writer->Iterate(
        "aten::scatter_", kScatter,
        {Scores(DataType::kFloat32), Choices(DataType::kInt64), Choices(DataType::kFloat32)});
    writer->Kernel("aten::topk", kTopk, {Gates()});
    writer->Pointwise("aten::copy_", {Places(rank_.dtype), Places(DataType::kFloat32)});
  }

  void RouteBackward(BlockWriter* writer) const {
    const graph::TensorShape choices = Choices(DataType::kFloat32);
    writer->Pointwise("aten::fill_", {Gates()});
    writer->Pointwise("aten::copy_", {Places(DataType::kFloat32), Places(rank_.dtype)});
    writer->Iterate("aten::scatter_", kScatter,
                    {Gates(), Places(DataType::kInt64), Places(DataType::kFloat32)});
    writer->Iterate("aten::gather", kScatter,
                    {Scores(DataType::kFloat32), Choices(DataType::kInt64)});
    writer->Pointwise("aten::mul", {choices, choices});
    writer->Kernel("aten::_softmax_backward_data", "softmax_warp_backward", {choices, choices});
    writer->Pointwise("aten::fill_", {Scores(DataType::kFloat32)});
    writer->Iterate("aten::scatter_", kScatter,
                    {Scores(DataType::kFloat32), Choices(DataType::kInt64), choices});
    writer->Pointwise("aten::copy_", {Scores(rank_.dtype), Scores(DataType::kFloat32)});
  }

  // index_select is a gather along rows.
  void TakeRows(BlockWriter* writer) const {
    writer->Kernel(
        "aten::gather", "vectorized_gather_kernel",
        {Tokens(), Tensor(DataType::kInt64, {experts_ * capacity_, rank_.hidden}), Rows()});
  }

  void SumRows(BlockWriter* writer) const {
    writer->Pointwise("aten::fill_", {Tokens()});
    writer->Kernel("aten::index_add_", "indexFuncLargeIndex",
                   {Tokens(), Tensor(DataType::kInt64, {experts_ * capacity_}), Rows()});
  }

  void Dispatch(BlockWriter* writer) const {
    Exchange(writer);
    if (rank_.job.parallel.etp > 1) {
      writer->Collective(
          GroupAxis::kTensor,
          AllGatherOf(rank_.dtype, rank_.job.parallel.etp * experts_ * capacity_ * rank_.hidden));
    }
    OrderRows(/*by_expert=*/true, writer);
  }

  void Combine(BlockWriter* writer) const {
    OrderRows(/*by_expert=*/false, writer);
    if (rank_.job.parallel.etp > 1) {
      writer->Collective(GroupAxis::kTensor,
                         ReduceScatterOf(rank_.dtype, rank_.job.parallel.etp * experts_ *
                                                          capacity_ * rank_.hidden));
    }
    Exchange(writer);
  }

  void Exchange(BlockWriter* writer) const {
    if (rank_.job.parallel.ep > 1) {
      writer->Collective(GroupAxis::kExpert,
                         AllToAllOf(rank_.dtype, experts_ * capacity_ * rank_.hidden));
    }
  }

  // From the order of senders to that of local experts or back, if there are several of both.
  void OrderRows(bool by_expert, BlockWriter* writer) const {
    if (senders_ > 1 && local_experts_ > 1) {
      const int64_t first = by_expert ? local_experts_ : senders_;
      const int64_t second = by_expert ? senders_ : local_experts_;
      const graph::TensorShape rows = Tensor(rank_.dtype, {first, second, capacity_, rank_.hidden});
      writer->Pointwise("aten::copy_", {rows, rows});
    }
  }

  void BatchedForward(const Linear& batched, BlockWriter* writer) const {
    const int64_t rows = senders_ * capacity_;
    const Product product = {.rows = rows,
                             .columns = batched.outputs,
                             .depth = batched.inputs,
                             .batch = local_experts_,
                             .transposed_right = true,
                             .input = rank_.dtype,
                             .output = rank_.dtype};
    writer->Matmul("aten::bmm", BatchedGemm(local_experts_), product,
                   {Tensor(rank_.dtype, {local_experts_, rows, batched.inputs}),
                    Tensor(rank_.dtype, {local_experts_, batched.inputs, batched.outputs})});
  }

  void BatchedBackward(const Linear& batched, BlockWriter* writer) const {
    const int64_t rows = senders_ * capacity_;
    const Product input = {.rows = rows,
                           .columns = batched.inputs,
                           .depth = batched.outputs,
                           .batch = local_experts_,
                           .input = rank_.dtype,
                           .output = rank_.dtype};
    writer->Matmul("aten::bmm", BatchedGemm(local_experts_), input,
                   {Tensor(rank_.dtype, {local_experts_, rows, batched.outputs}),
                    Tensor(rank_.dtype, {local_experts_, batched.outputs, batched.inputs})});
    const Product weight = {.rows = batched.outputs,
                            .columns = batched.inputs,
                            .depth = rows,
                            .batch = local_experts_,
                            .transposed_left = true,
                            .input = rank_.dtype,
                            .output = rank_.gradient};
    const graph::TensorShape sum =
        Tensor(rank_.gradient, {local_experts_, batched.outputs, batched.inputs});
    writer->Matmul("aten::baddbmm", BatchedGemm(local_experts_), weight,
                   {sum, Tensor(rank_.dtype, {local_experts_, batched.outputs, rows}),
                    Tensor(rank_.dtype, {local_experts_, rows, batched.inputs}), sum});
    writer->Ready(batched.weight);
  }

  [[nodiscard]] graph::TensorShape Scores(DataType type) const {
    return Tensor(type, {tokens_, experts_});
  }

  [[nodiscard]] graph::TensorShape Gates() const {
    return Tensor(DataType::kFloat32, {experts_, tokens_});
  }

  [[nodiscard]] graph::TensorShape Choices(DataType type) const {
    return Tensor(type, {tokens_, topk_});
  }

  [[nodiscard]] graph::TensorShape Places(DataType type) const {
    return Tensor(type, {experts_, capacity_});
  }

  [[nodiscard]] graph::TensorShape Tokens() const {
    return Tensor(rank_.dtype, {tokens_, rank_.hidden});
  }

  [[nodiscard]] graph::TensorShape Rows() const {
    return Tensor(rank_.dtype, {experts_ * capacity_, rank_.hidden});
  }

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

}  // namespace

std::unique_ptr<FeedForward> MakeWorkloadExperts(const RankShape& rank, ParameterList* parameters) {
  return std::make_unique<WorkloadExperts>(rank, parameters);
}

}  // namespace prism::slicer
