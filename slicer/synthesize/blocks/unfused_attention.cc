#include "slicer/synthesize/blocks/unfused_attention.h"

namespace prism::slicer {
namespace {

// Unfused attention works on [batch · heads] matrices; grouped keys and values are repeated.
struct Scores {
  explicit Scores(const RankShape& rank)
      : dtype(rank.dtype),
        batch(rank.batch * rank.heads),
        scores(Tensor(rank.dtype, {batch, rank.sequence, rank.keys})),
        wide(Tensor(DataType::kFloat32, {batch, rank.sequence, rank.keys})),
        mask(Tensor(DataType::kBool, {batch, rank.sequence, rank.keys})),
        queries(Tensor(rank.dtype, {batch, rank.sequence, rank.head_size})),
        keys(Tensor(rank.dtype, {batch, rank.keys, rank.head_size})),
        values(Tensor(rank.dtype, {batch, rank.keys, rank.value_size})),
        output(Tensor(rank.dtype, {batch, rank.sequence, rank.value_size})) {}

  [[nodiscard]] Product Of(int64_t rows, int64_t columns, int64_t depth) const {
    return {.rows = rows,
            .columns = columns,
            .depth = depth,
            .batch = batch,
            .input = dtype,
            .output = dtype};
  }

  DataType dtype;
  int64_t batch;
  graph::TensorShape scores;
  graph::TensorShape wide;  // scores in float32
  graph::TensorShape mask;
  graph::TensorShape queries;
  graph::TensorShape keys;
  graph::TensorShape values;
  graph::TensorShape output;
};

constexpr const char* kBatchedGemm = "cublasGemmStridedBatchedEx";

void Cast(const graph::TensorShape& from, const graph::TensorShape& to, BlockWriter* writer) {
  if (from.dtype != to.dtype) {
    writer->Pointwise("aten::copy_", {to, from});
  }
}

// Unfused in float32 (Megatron-LM: FusedScaleMaskSoftmax.forward_torch_softmax).
void SoftmaxForward(const RankShape& rank, const Scores& of, BlockWriter* writer) {
  if (rank.style.fused_softmax) {
    writer->Fused("scaled_masked_softmax", {of.scores, of.scores});
    return;
  }
  Cast(of.scores, of.wide, writer);
  writer->Pointwise("aten::mul", {of.wide});
  writer->Pointwise("aten::masked_fill", {of.wide});
  writer->Kernel("aten::_softmax", "softmax_warp_forward", {of.wide});
  Cast(of.wide, of.scores, writer);
}

void SoftmaxBackward(const RankShape& rank, const Scores& of, BlockWriter* writer) {
  if (rank.style.fused_softmax) {
    writer->Fused("scaled_masked_softmax_backward", {of.scores, of.scores, of.scores});
    return;
  }
  Cast(of.scores, of.wide, writer);
  writer->Kernel("aten::_softmax_backward_data", "softmax_warp_backward", {of.wide, of.wide});
  writer->Pointwise("aten::masked_fill", {of.wide});
  writer->Pointwise("aten::mul", {of.wide});
  Cast(of.wide, of.scores, writer);
}

}  // namespace

void UnfusedForward(const RankShape& rank, BlockWriter* writer) {
  const Scores of(rank);
  if (rank.heads != rank.kv_heads) {
    writer->Pointwise("aten::copy_", {of.keys, of.keys});
    writer->Pointwise("aten::copy_", {of.values, of.values});
  }
  Product product = of.Of(rank.sequence, rank.keys, rank.head_size);
  product.transposed_right = true;
  writer->Matmul("aten::baddbmm", kBatchedGemm, product, {of.scores, of.queries, of.keys});
  SoftmaxForward(rank, of, writer);
  if (rank.style.dropout) {
    writer->Kernel("aten::native_dropout", "fused_dropout_kernel_vec", {of.scores});
  }
  writer->Matmul("aten::bmm", kBatchedGemm, of.Of(rank.sequence, rank.value_size, rank.keys),
                 {of.scores, of.values});
  const graph::TensorShape context =
      Tensor(rank.dtype, {rank.sequence, rank.batch, rank.heads, rank.value_size});
  writer->Pointwise("aten::copy_", {context, context});
}

void UnfusedBackward(const RankShape& rank, BlockWriter* writer) {
  const Scores of(rank);
  Product scores = of.Of(rank.sequence, rank.keys, rank.value_size);
  scores.transposed_right = true;
  Product values = of.Of(rank.keys, rank.value_size, rank.sequence);
  values.transposed_left = true;
  Product keys = of.Of(rank.keys, rank.head_size, rank.sequence);
  keys.transposed_left = true;
  writer->Matmul("aten::bmm", kBatchedGemm, scores, {of.output, of.values});
  writer->Matmul("aten::bmm", kBatchedGemm, values, {of.scores, of.output});
  if (rank.style.dropout) {
    writer->Pointwise("aten::native_dropout_backward", {of.scores, of.mask});
  }
  SoftmaxBackward(rank, of, writer);
  writer->Matmul("aten::bmm", kBatchedGemm, of.Of(rank.sequence, rank.head_size, rank.keys),
                 {of.scores, of.keys});
  writer->Matmul("aten::bmm", kBatchedGemm, keys, {of.scores, of.queries});
  if (rank.heads != rank.kv_heads) {
    writer->Reduction("aten::sum", {of.keys});
    writer->Reduction("aten::sum", {of.values});
  }
}

}  // namespace prism::slicer
