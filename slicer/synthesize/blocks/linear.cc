#include "slicer/synthesize/blocks/linear.h"

#include "slicer/synthesize/blocks/launch_rules.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;

constexpr const char* kGemm = "cublasGemmEx";
constexpr const char* kGemmWithEpilogue = "cublasLtMatmul";
constexpr const char* kGemmFp4 = "cublasLtMatmul_nvfp4";

// Pieces into which a transfer that overlaps a matrix product is divided, so that the product of
// one piece runs during the transfer of the next. Transformer Engine uses tp pieces; four come
// close enough at a fraction of the ops.
constexpr int64_t kOverlapPieces = 4;

DataType MatmulType(const RankShape& rank, const Linear& linear) {
  return linear.full_precision ? rank.dtype : rank.matmul;
}

bool IsFloat8(const RankShape& rank, const Linear& linear) {
  return MatmulType(rank, linear) == DataType::kFloat8;
}

const char* Library(const RankShape& rank, DataType type) {
  if (type != DataType::kFloat8) {
    return kGemm;
  }
  return rank.style.precision == graph::Precision::kNvFloat4 ? kGemmFp4 : kGemmWithEpilogue;
}

bool OverlapsInPieces(const RankShape& rank) {
  return rank.style.tp_comm_overlap && rank.sequence_parallel &&
         rank.tokens() % kOverlapPieces == 0;
}

// The element type in which activations of a linear layer are transferred: Transformer Engine
// gathers what it has already cast.
DataType GatheredType(const RankShape& rank, const Linear& linear) {
  return IsFloat8(rank, linear) ? DataType::kFloat8 : rank.dtype;
}

void InputGradientProduct(const RankShape& rank,
                          const Linear& linear,
                          int64_t tokens,
                          BlockWriter* writer) {
  const DataType type = MatmulType(rank, linear);
  const Product product = {.rows = tokens,
                           .columns = linear.inputs,
                           .depth = linear.outputs,
                           .input = type,
                           .output = rank.dtype};
  writer->Matmul(
      "aten::mm", Library(rank, type), product,
      {Tensor(type, {tokens, linear.outputs}), Tensor(type, {linear.outputs, linear.inputs})});
}

Product WeightProduct(const RankShape& rank, const Linear& linear, int64_t tokens) {
  const DataType type = MatmulType(rank, linear);
  return {.rows = linear.outputs,
          .columns = linear.inputs,
          .depth = tokens,
          .transposed_left = true,
          .input = type,
          .output = rank.style.gradient_accumulation_fusion ? rank.gradient : rank.dtype};
}

void WeightGradientProduct(const RankShape& rank,
                           const Linear& linear,
                           int64_t tokens,
                           BlockWriter* writer) {
  if (rank.style.frozen_weights) {
    return;
  }
  const DataType type = MatmulType(rank, linear);
  const Product product = WeightProduct(rank, linear, tokens);
  const bool fused = rank.style.gradient_accumulation_fusion;
  const graph::TensorShape left = Tensor(type, {linear.outputs, tokens});
  const graph::TensorShape right = Tensor(type, {tokens, linear.inputs});
  if (fused) {
    const graph::TensorShape sum = Tensor(rank.gradient, {linear.outputs, linear.inputs});
    writer->Matmul("aten::addmm", Library(rank, type), product, {sum, left, right, sum});
    writer->Ready(linear.weight);
    return;
  }
  writer->Matmul("aten::mm", Library(rank, type), product, {left, right});
  AccumulateGradient(rank, {linear.outputs, linear.inputs}, linear.weight, writer);
}

// Outside Transformer Engine (torchao) the scale of a tensor follows from its current values: one
// pass finds the largest, one casts; weights are cast in every micro-batch, unless they are
// transferred in 8 bits. A compiler of whole iterations (XLA) uses scales of earlier iterations
// instead.
bool ScalesDynamically(const RankShape& rank) {
  return rank.style.data_parallel == graph::DataParallelKind::kFsdp &&
         rank.style.precision == graph::Precision::kFloat8 &&
         rank.style.host_cost != graph::HostCost::kGraph;
}

void CastWeight(const RankShape& rank, const Linear& linear, BlockWriter* writer) {
  if (ScalesDynamically(rank) && !rank.style.fp8_param_gather) {
    const graph::TensorShape weight = Tensor(rank.dtype, {linear.outputs, linear.inputs});
    writer->Fused("amax", {weight});
    CastToFloat8(weight, writer);
  }
}

// Eight-bit recipes with one scale per tensor cast within the kernel that makes the tensor if that
// is a norm or an activation; the others have a separate kernel for every operand.
void CastInput(const RankShape& rank, const Linear& linear, bool made_here, BlockWriter* writer) {
  if (!IsFloat8(rank, linear)) {
    return;
  }
  const graph::TensorShape input = rank.Outside(linear.inputs);
  if (ScalesDynamically(rank)) {
    writer->Fused("amax", {input});
    CastToFloat8(input, writer);
    CastWeight(rank, linear, writer);
    return;
  }
  const bool within = made_here && rank.style.precision == graph::Precision::kFloat8;
  if (!within) {
    CastToFloat8(input, writer);
  }
}

// The same kernel also computes the bias gradient.
void CastOutputGradient(const RankShape& rank, const Linear& linear, BlockWriter* writer) {
  if (!IsFloat8(rank, linear)) {
    return;
  }
  const graph::TensorShape gradient = Tensor(rank.dtype, {rank.tokens(), linear.outputs});
  if (ScalesDynamically(rank)) {
    writer->Fused("amax", {gradient});
    CastWeight(rank, linear, writer);
  }
  CastToFloat8(gradient, writer);
}

// What was gathered in 8 bits has to be transposed for the weight's gradient.
void TransposeGathered(const RankShape& rank, const Linear& linear, BlockWriter* writer) {
  if (IsFloat8(rank, linear) && rank.sequence_parallel && !rank.style.frozen_weights) {
    const graph::TensorShape gathered = Tensor(DataType::kFloat8, {rank.tokens(), linear.inputs});
    writer->Fused("transpose", {gathered, gathered});
  }
}

void BiasGradient(const RankShape& rank, const Linear& linear, BlockWriter* writer) {
  if (linear.bias && !IsFloat8(rank, linear) && !rank.style.frozen_weights) {
    ColumnSum(Tensor(rank.dtype, {rank.tokens(), linear.outputs}), linear.outputs, writer);
  }
}

void AccumulateBias(const RankShape& rank, const Linear& linear, BlockWriter* writer) {
  if (linear.bias) {
    AccumulateGradient(rank, {linear.outputs}, linear.weight + 1, writer);
  }
}

// The transfer of a column-parallel input gradient: none, or started concurrently with what
// follows.
PendingCollective StartInputReduction(const RankShape& rank,
                                      const Linear& linear,
                                      BlockWriter* writer) {
  const int64_t count = rank.tokens() * linear.inputs;
  if (rank.sequence_parallel) {
    return writer->Start(GroupAxis::kTensor, ReduceScatterOf(rank.dtype, count));
  }
  const bool beside = rank.built_in || rank.style.async_tp_all_reduce;
  if (rank.tensor_parallel && beside) {
    return writer->Start(GroupAxis::kTensor, AllReduceOf(rank.dtype, count));
  }
  return {};
}

}  // namespace

void LocalForward(const RankShape& rank,
                  const Linear& linear,
                  int64_t tokens,
                  BlockWriter* writer) {
  const DataType type = MatmulType(rank, linear);
  const Product product = {.rows = tokens,
                           .columns = linear.outputs,
                           .depth = linear.inputs,
                           .transposed_right = true,
                           .input = type,
                           .output = rank.dtype};
  const graph::TensorShape left = Tensor(type, {tokens, linear.inputs});
  const graph::TensorShape right = Tensor(type, {linear.inputs, linear.outputs});
  if (linear.bias && linear.bias_in_epilogue) {
    writer->Matmul("aten::addmm", kGemmWithEpilogue, product,
                   {Tensor(rank.dtype, {linear.outputs}), left, right});
    return;
  }
  writer->Matmul("aten::mm", Library(rank, type), product, {left, right});
}

void ColumnForward(const RankShape& rank, const Linear& linear, BlockWriter* writer) {
  CastInput(rank, linear, /*made_here=*/true, writer);
  const graph::CollectiveShape gather =
      AllGatherOf(GatheredType(rank, linear), rank.tokens() * linear.inputs);
  if (!OverlapsInPieces(rank)) {
    if (rank.sequence_parallel) {
      writer->Collective(GroupAxis::kTensor, gather);
    }
    LocalForward(rank, linear, rank.tokens(), writer);
    return;
  }
  std::vector<PendingCollective> pieces;
  graph::CollectiveShape piece = gather;
  piece.bytes /= kOverlapPieces;
  for (int64_t i = 0; i < kOverlapPieces; ++i) {
    pieces.push_back(writer->Start(GroupAxis::kTensor, piece));
  }
  for (const PendingCollective& pending : pieces) {
    writer->Wait(pending);
    LocalForward(rank, linear, rank.tokens() / kOverlapPieces, writer);
  }
}

void RowForward(const RankShape& rank, const Linear& linear, BlockWriter* writer) {
  CastInput(rank, linear, /*made_here=*/false, writer);
  Linear unbiased = linear;
  unbiased.bias = false;  // added after the sum
  if (!OverlapsInPieces(rank)) {
    LocalForward(rank, unbiased, rank.tokens(), writer);
    ReduceForward(rank, linear.outputs, writer);
    return;
  }
  // NeMo's recipes transfer partial sums of 8-bit products in 8 bits (fp8_buf of Transformer
  // Engine's overlapped reduce-scatter).
  const DataType type = IsFloat8(rank, linear) ? DataType::kFloat8 : rank.dtype;
  PendingCollective last;
  for (int64_t i = 0; i < kOverlapPieces; ++i) {
    LocalForward(rank, unbiased, rank.tokens() / kOverlapPieces, writer);
    last = writer->Start(GroupAxis::kTensor,
                         ReduceScatterOf(type, rank.tokens() / kOverlapPieces * linear.outputs));
  }
  writer->Wait(last);
}

void ColumnBackward(const RankShape& rank,
                    const Linear& linear,
                    BackwardPart part,
                    BlockWriter* writer) {
  if (part == BackwardPart::kWeight) {
    if (rank.sequence_parallel && !rank.style.frozen_weights) {
      writer->Collective(GroupAxis::kTensor,
                         AllGatherOf(GatheredType(rank, linear), rank.tokens() * linear.inputs));
    }
    WeightGradientProduct(rank, linear, rank.tokens(), writer);
    BiasGradient(rank, linear, writer);
    AccumulateBias(rank, linear, writer);
    return;
  }
  CastOutputGradient(rank, linear, writer);
  PendingCollective gather;
  if (rank.sequence_parallel && !rank.style.frozen_weights && part == BackwardPart::kAll) {
    gather = writer->Start(GroupAxis::kTensor,
                           AllGatherOf(GatheredType(rank, linear), rank.tokens() * linear.inputs));
  }
  InputGradientProduct(rank, linear, rank.tokens(), writer);
  writer->Wait(gather);
  const PendingCollective reduction = StartInputReduction(rank, linear, writer);
  if (part == BackwardPart::kAll) {
    TransposeGathered(rank, linear, writer);
    WeightGradientProduct(rank, linear, rank.tokens(), writer);
    BiasGradient(rank, linear, writer);
  }
  writer->Wait(reduction);
  if (rank.tensor_parallel && reduction.event == graph::kNoDep) {
    writer->Collective(GroupAxis::kTensor, AllReduceOf(rank.dtype, rank.tokens() * linear.inputs));
  }
  if (part == BackwardPart::kAll) {
    AccumulateBias(rank, linear, writer);
  }
}

void RowBackward(const RankShape& rank,
                 const Linear& linear,
                 BackwardPart part,
                 BlockWriter* writer) {
  if (part == BackwardPart::kWeight) {
    WeightGradientProduct(rank, linear, rank.tokens(), writer);
    return;
  }
  CastOutputGradient(rank, linear, writer);
  if (OverlapsInPieces(rank)) {
    std::vector<PendingCollective> pieces;
    graph::CollectiveShape piece =
        AllGatherOf(GatheredType(rank, linear), rank.tokens() * linear.outputs / kOverlapPieces);
    for (int64_t i = 0; i < kOverlapPieces; ++i) {
      pieces.push_back(writer->Start(GroupAxis::kTensor, piece));
    }
    for (const PendingCollective& pending : pieces) {
      writer->Wait(pending);
      InputGradientProduct(rank, linear, rank.tokens() / kOverlapPieces, writer);
    }
  } else {
    if (rank.sequence_parallel) {
      writer->Collective(GroupAxis::kTensor,
                         AllGatherOf(GatheredType(rank, linear), rank.tokens() * linear.outputs));
    }
    InputGradientProduct(rank, linear, rank.tokens(), writer);
  }
  if (part == BackwardPart::kAll) {
    WeightGradientProduct(rank, linear, rank.tokens(), writer);
  }
}

void ReplicatedForward(const RankShape& rank, const Linear& linear, BlockWriter* writer) {
  CastInput(rank, linear, /*made_here=*/false, writer);
  LocalForward(rank, linear, rank.shard * rank.batch, writer);
}

void ReplicatedBackward(const RankShape& rank,
                        const Linear& linear,
                        BackwardPart part,
                        BlockWriter* writer) {
  const int64_t tokens = rank.shard * rank.batch;
  if (part != BackwardPart::kWeight) {
    CastOutputGradient(rank, linear, writer);
    InputGradientProduct(rank, linear, tokens, writer);
  }
  if (part != BackwardPart::kInput) {
    WeightGradientProduct(rank, linear, tokens, writer);
  }
}

namespace {

// autograd's sum in 16 bits, then update_hp_grads and clear_lp_grads of DeepSpeed's BF16_Optimizer.
void AccumulateApart(const RankShape& rank,
                     const std::vector<int64_t>& shape,
                     BlockWriter* writer) {
  const graph::TensorShape narrow = Tensor(rank.dtype, shape);
  const graph::TensorShape wide = Tensor(rank.gradient, shape);
  writer->Pointwise("aten::add_", {narrow, narrow});
  writer->Pointwise("aten::copy_", {wide, narrow});
  writer->Pointwise("aten::add_", {wide, wide});
  writer->Pointwise("aten::fill_", {narrow});
}

}  // namespace

void AccumulateGradient(const RankShape& rank,
                        const std::vector<int64_t>& shape,
                        uint32_t parameter,
                        BlockWriter* writer) {
  if (rank.style.frozen_weights) {
    return;
  }
  switch (rank.style.data_parallel) {
    case graph::DataParallelKind::kMegatron:
      if (rank.style.separate_fp32_gradients) {
        AccumulateApart(rank, shape, writer);
        break;
      }
      writer->Pointwise("aten::add_", {Tensor(rank.gradient, shape), Tensor(rank.dtype, shape)});
      break;
    case graph::DataParallelKind::kZero2:
      // DeepSpeed copies a gradient into the bucket that it reduces.
      writer->Pointwise("aten::copy_", {Tensor(rank.dtype, shape), Tensor(rank.dtype, shape)});
      break;
    case graph::DataParallelKind::kFsdp:
      break;  // stays where autograd put it until it is reduced
  }
  writer->Ready(parameter);
}

void AdapterForward(const RankShape& rank, const Linear& linear, BlockWriter* writer) {
  if (!rank.style.frozen_weights) {
    return;
  }
  const int64_t width = rank.style.adapter_rank;
  const graph::TensorShape input = Tensor(rank.dtype, {rank.tokens(), linear.inputs});
  if (rank.style.adapter_dropout) {
    writer->Kernel("aten::native_dropout", "fused_dropout_kernel", {input});
  }
  Linear narrow = {.inputs = linear.inputs, .outputs = width, .full_precision = true};
  LocalForward(rank, narrow, rank.tokens(), writer);
  narrow = {.inputs = width, .outputs = linear.outputs, .full_precision = true};
  LocalForward(rank, narrow, rank.tokens(), writer);
  const graph::TensorShape output = Tensor(rank.dtype, {rank.tokens(), linear.outputs});
  if (rank.style.compiled) {
    writer->Fused("scaled_add", {output, output, output});
    return;
  }
  writer->Pointwise("aten::mul", {output});
  writer->Pointwise("aten::add", {output, output});
}

void AdapterBackward(const RankShape& rank, const Linear& linear, BlockWriter* writer) {
  if (!rank.style.frozen_weights) {
    return;
  }
  const int64_t width = rank.style.adapter_rank;
  const graph::TensorShape output = Tensor(rank.dtype, {rank.tokens(), linear.outputs});
  writer->Pointwise("aten::mul", {output});
  for (const Linear& narrow :
       {Linear{.inputs = width, .outputs = linear.outputs, .full_precision = true},
        Linear{.inputs = linear.inputs, .outputs = width, .full_precision = true}}) {
    InputGradientProduct(rank, narrow, rank.tokens(), writer);
    writer->Matmul("aten::mm", kGemm, WeightProduct(rank, narrow, rank.tokens()),
                   {Tensor(rank.dtype, {narrow.outputs, rank.tokens()}),
                    Tensor(rank.dtype, {rank.tokens(), narrow.inputs})});
  }
  const graph::TensorShape input = Tensor(rank.dtype, {rank.tokens(), linear.inputs});
  if (rank.style.adapter_dropout) {
    writer->Pointwise("aten::native_dropout_backward",
                      {input, Tensor(DataType::kBool, {rank.tokens(), linear.inputs})});
  }
  writer->Pointwise("aten::add_", {input, input});
}

void CastToFloat8(const graph::TensorShape& tensor, BlockWriter* writer) {
  graph::TensorShape narrow = tensor;
  narrow.dtype = DataType::kFloat8;
  writer->Fused("cast_transpose", {tensor, narrow, narrow});
}

void ReduceForward(const RankShape& rank, int64_t width, BlockWriter* writer) {
  const int64_t count = rank.tokens() * width;
  if (rank.sequence_parallel) {
    writer->Collective(GroupAxis::kTensor, ReduceScatterOf(rank.dtype, count));
  } else if (rank.tensor_parallel) {
    writer->Collective(GroupAxis::kTensor, AllReduceOf(rank.dtype, count));
  }
}

void GatherSequence(const RankShape& rank, int64_t width, BlockWriter* writer) {
  if (rank.sequence_parallel) {
    writer->Collective(GroupAxis::kTensor, AllGatherOf(rank.dtype, rank.tokens() * width));
  }
}

}  // namespace prism::slicer
