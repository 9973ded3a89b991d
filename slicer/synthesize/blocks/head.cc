// Final norm, logits and the loss over a vocabulary divided over tensor-parallel ranks (Megatron's
// vocab_parallel_cross_entropy).
#include "slicer/synthesize/blocks/blocks.h"
#include "slicer/synthesize/blocks/launch_rules.h"
#include "slicer/synthesize/blocks/linear.h"
#include "slicer/synthesize/blocks/norm.h"
#include "slicer/synthesize/blocks/parameter_list.h"
#include "slicer/synthesize/blocks/unit_writer.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;
using graph::ReduceOp;

class HeadWriter {
 public:
  HeadWriter(const RankShape& rank, const UnitPlace& place, BlockTables* tables)
      : rank_(rank),
        writer_(tables),
        parameters_(graph::HeadParameters(rank.job, place.shares_embedding)),
        norm_(parameters_.TakeNorm()),
        logits_(place.shares_embedding ? SharedLogits(rank) : parameters_.TakeLinear()) {
    logits_.full_precision = true;
  }

  [[nodiscard]] const graph::UnitParameters& parameters() const { return parameters_.all(); }

  Block Forward() {
    NormForward(rank_, norm_, /*after_add=*/false, &writer_);
    ColumnForward(rank_, logits_, &writer_);
    if (rank_.batch > 1) {
      writer_.Pointwise("aten::copy_", {Ids(DataType::kInt64), Ids(DataType::kInt64)});
    }
    if (Fused()) {
      FusedLoss();
    } else if (WholeVocabulary()) {
      TorchLoss();
    } else {
      EagerLoss();
    }
    writer_.Reduction("aten::mean", {Ids(DataType::kFloat32)});
    return writer_.Finish();
  }

  Block Backward(BackwardPart part) {
    if (part == BackwardPart::kWeight) {
      ColumnBackward(rank_, logits_, part, &writer_);
      return writer_.Finish();
    }
    const graph::TensorShape scalar = Tensor(DataType::kFloat32, {});
    writer_.Pointwise("aten::fill_", {scalar});
    writer_.Pointwise("aten::div", {scalar, Tensor(DataType::kFloat64, {})});
    writer_.Pointwise("aten::div", {Ids(DataType::kFloat32), Tensor(DataType::kInt64, {})});
    if (rank_.style.chunked_head) {
      ColumnForward(rank_, logits_, &writer_);
    }
    if (Fused()) {
      FusedLossBackward();
    } else if (WholeVocabulary()) {
      TorchLossBackward();
    } else {
      EagerLossBackward();
    }
    ColumnBackward(rank_, logits_, part, &writer_);
    NormBackward(rank_, norm_, ResidualSum::kNone, &writer_);
    return writer_.Finish();
  }

 private:
  static Linear SharedLogits(const RankShape& rank) {
    return {.inputs = rank.hidden, .outputs = rank.vocab, .weight = kSharedEmbedding};
  }

  [[nodiscard]] bool Fused() const {
    return !rank_.built_in && (rank_.style.fused_cross_entropy || rank_.style.compiled);
  }

  // Frameworks without their own tensor parallelism call torch.nn.functional.cross_entropy.
  [[nodiscard]] bool WholeVocabulary() const {
    return !rank_.tensor_parallel && rank_.style.data_parallel == graph::DataParallelKind::kFsdp;
  }

  [[nodiscard]] graph::TensorShape Ids(DataType type) const {
    return Tensor(type, {rank_.sequence, rank_.batch});
  }

  [[nodiscard]] graph::TensorShape Column(DataType type) const {
    return Tensor(type, {rank_.sequence, rank_.batch, 1});
  }

  [[nodiscard]] graph::TensorShape Logits(DataType type) const {
    return Tensor(type, {rank_.sequence, rank_.batch, rank_.vocab});
  }

  void Reduce(ReduceOp op) {
    if (!rank_.tensor_parallel) {
      return;
    }
    graph::CollectiveShape shape = AllReduceOf(DataType::kFloat32, rank_.tokens());
    shape.reduce = op;
    writer_.Collective(GroupAxis::kTensor, shape);
  }

  void EagerLoss() {
    const graph::TensorShape logits = Logits(DataType::kFloat32);
    const graph::TensorShape ids = Ids(DataType::kInt64);
    const graph::TensorShape flags = Ids(DataType::kBool);
    const graph::TensorShape values = Ids(DataType::kFloat32);
    writer_.Pointwise("aten::copy_", {logits, Logits(rank_.dtype)});
    RowReduction("aten::max", logits, &writer_);
    Reduce(ReduceOp::kMax);
    writer_.Pointwise("aten::sub_", {logits, Column(DataType::kFloat32)});
    writer_.Pointwise("aten::lt", {ids});
    writer_.Pointwise("aten::ge", {ids});
    writer_.Pointwise("aten::logical_or", {flags, flags, flags});
    writer_.Pointwise("aten::sub", {ids, Tensor(DataType::kInt64, {})});
    writer_.Pointwise("aten::masked_fill_", {ids, flags});
    writer_.Iterate("aten::gather", "_scatter_gather_elementwise_kernel",
                    {logits, Column(DataType::kInt64)});
    writer_.Pointwise("aten::masked_fill_", {values, flags});
    Reduce(ReduceOp::kSum);
    writer_.Pointwise("aten::exp_", {logits});
    RowReduction("aten::sum", logits, &writer_);
    Reduce(ReduceOp::kSum);
    writer_.Pointwise("aten::log", {values});
    writer_.Pointwise("aten::sub", {values, values});
    writer_.Pointwise("aten::div_", {logits, Column(DataType::kFloat32)});
  }

  void EagerLossBackward() {
    const graph::TensorShape logits = Logits(DataType::kFloat32);
    const graph::TensorShape values = Ids(DataType::kFloat32);
    const graph::TensorShape flags = Ids(DataType::kBool);
    writer_.Pointwise("aten::logical_not", {flags, Tensor(DataType::kBool, {0})});
    writer_.Pointwise("aten::copy_", {values, flags});
    writer_.Pointwise("aten::neg", {values});
    writer_.Iterate("aten::scatter_add_", "_scatter_gather_elementwise_kernel",
                    {logits, Column(DataType::kInt64), Column(DataType::kFloat32)});
    writer_.Pointwise("aten::mul_", {logits, Column(DataType::kFloat32)});
    writer_.Pointwise("aten::copy_", {Logits(rank_.dtype), logits});
  }

  void TorchLoss() {
    const graph::TensorShape logits = Logits(DataType::kFloat32);
    writer_.Pointwise("aten::copy_", {logits, Logits(rank_.dtype)});
    writer_.Kernel("aten::_log_softmax", "cunn_SoftMaxForward", {logits});
    writer_.Kernel("aten::nll_loss_forward", "nll_loss_forward_reduce_cuda_kernel_2d",
                   {logits, Ids(DataType::kInt64)});
  }

  void TorchLossBackward() {
    const graph::TensorShape logits = Logits(DataType::kFloat32);
    writer_.Pointwise("aten::zero_", {logits});
    writer_.Kernel("aten::nll_loss_backward", "nll_loss_backward_reduce_cuda_kernel_2d",
                   {Ids(DataType::kFloat32), Ids(DataType::kInt64)});
    writer_.Kernel("aten::_log_softmax_backward_data", "cunn_SoftMaxBackward", {logits, logits});
    writer_.Pointwise("aten::copy_", {Logits(rank_.dtype), logits});
  }

  // Two passes over the logits: their maximum and sum, then, once these are known for all ranks,
  // the softmax that is kept for backward.
  void FusedLoss() {
    const graph::TensorShape logits = Logits(rank_.dtype);
    writer_.Fused("cross_entropy_statistics", {logits});
    Reduce(ReduceOp::kMax);
    Reduce(ReduceOp::kSum);
    writer_.Fused("cross_entropy", {logits, logits});
  }

  void FusedLossBackward() {
    writer_.Fused("cross_entropy_backward", {Logits(rank_.dtype), Logits(rank_.dtype)});
  }

  const RankShape& rank_;
  BlockWriter writer_;
  ParameterList parameters_;
  Norm norm_;
  Linear logits_;
};

}  // namespace

UnitBlocks HeadUnit(const RankShape& rank, const UnitPlace& place, BlockTables* tables) {
  HeadWriter writer(rank, place, tables);
  return WriteUnit(rank, &writer);
}

Block LossScale(bool first_microbatch, BlockTables* tables) {
  BlockWriter writer(tables);
  const graph::TensorShape scalar = Tensor(DataType::kFloat32, {});
  writer.Pointwise("aten::div", {scalar, Tensor(DataType::kFloat64, {})});
  if (!first_microbatch) {
    writer.Pointwise("aten::add", {scalar, scalar});
  }
  return writer.Finish();
}

Block LossReport(const RankShape& rank, BlockTables* tables) {
  BlockWriter writer(tables);
  if (rank.job.parallel.dp * rank.job.parallel.cp > 1) {
    writer.Collective(rank.job.parallel.cp > 1 ? GroupAxis::kDataContext : GroupAxis::kData,
                      AllReduceOf(DataType::kFloat32, 1));
  }
  writer.Copy(DataTypeBytes(DataType::kFloat32), graph::kDeviceToHost);
  writer.StreamSync();
  return writer.Finish();
}

}  // namespace prism::slicer
