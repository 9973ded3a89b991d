#include "slicer/synthesize/blocks/norm.h"

#include "slicer/synthesize/blocks/launch_rules.h"
#include "slicer/synthesize/blocks/linear.h"

namespace prism::slicer {
namespace {

bool EagerRmsNorm(const RankShape& rank) {
  return !rank.layer_norm && !rank.built_in && !rank.style.fused_norm;
}

graph::TensorShape Statistics(const RankShape& rank) {
  return Tensor(DataType::kFloat32, {rank.shard, rank.batch, 1});
}

// x · rsqrt(mean(x²) + ε) · w in fp32, op by op.
void EagerRmsNormForward(const RankShape& rank, int64_t width, BlockWriter* writer) {
  const graph::TensorShape narrow = rank.Outside(width);
  graph::TensorShape wide = narrow;
  wide.dtype = DataType::kFloat32;
  const graph::TensorShape statistics = Statistics(rank);
  writer->Pointwise("aten::copy_", {wide, narrow});
  writer->Pointwise("aten::pow", {wide});
  writer->Reduction("aten::mean", {wide});
  writer->Pointwise("aten::add", {statistics});
  writer->Pointwise("aten::rsqrt", {statistics});
  writer->Pointwise("aten::mul", {wide, statistics});
  writer->Pointwise("aten::copy_", {narrow, wide});
  writer->Pointwise("aten::mul", {Tensor(rank.dtype, {width}), narrow});
}

void EagerRmsNormBackward(const RankShape& rank, int64_t width, BlockWriter* writer) {
  const graph::TensorShape narrow = rank.Outside(width);
  graph::TensorShape wide = narrow;
  wide.dtype = DataType::kFloat32;
  const graph::TensorShape statistics = Statistics(rank);
  writer->Pointwise("aten::mul", {narrow, narrow});
  writer->Reduction("aten::sum", {narrow});
  writer->Pointwise("aten::mul", {narrow, Tensor(rank.dtype, {width})});
  writer->Pointwise("aten::copy_", {wide, narrow});
  writer->Pointwise("aten::mul", {wide, statistics});
  writer->Pointwise("aten::mul", {wide, wide});
  writer->Reduction("aten::sum", {wide});
  writer->Pointwise("aten::mul", {wide, statistics});
  writer->Pointwise("aten::add", {wide, wide});
  writer->Pointwise("aten::copy_", {narrow, wide});
}

Tensors BackwardInputs(const RankShape& rank, int64_t width) {
  Tensors inputs = {rank.Outside(width), rank.Outside(width), Statistics(rank)};
  const graph::TensorShape weight = Tensor(rank.dtype, {width});
  if (rank.layer_norm) {
    inputs.push_back(Statistics(rank));
    inputs.push_back(weight);
  }
  inputs.push_back(weight);
  return inputs;
}

// One byte an element.
graph::TensorShape Mask(const graph::TensorShape& tensor) {
  return Tensor(DataType::kBool, tensor.dims);
}

}  // namespace

void NormForward(const RankShape& rank, const Norm& norm, bool after_add, BlockWriter* writer) {
  const graph::TensorShape input = rank.Outside(norm.width);
  const graph::TensorShape weight = Tensor(rank.dtype, {norm.width});
  if (rank.style.compiled) {
    writer->Fused(after_add ? "add_norm" : "norm", after_add
                                                       ? Tensors{input, input, input, input, weight}
                                                       : Tensors{input, input, weight});
    return;
  }
  if (EagerRmsNorm(rank)) {
    EagerRmsNormForward(rank, norm.width, writer);
    return;
  }
  Tensors inputs = {input, weight};
  if (rank.layer_norm) {
    inputs.push_back(weight);
  }
  writer->Kernel(rank.layer_norm ? "aten::native_layer_norm" : "aten::_fused_rms_norm",
                 "vectorized_layer_norm_kernel", inputs);
}

void NormBackward(const RankShape& rank, const Norm& norm, ResidualSum sum, BlockWriter* writer) {
  const graph::TensorShape gradient = rank.Outside(norm.width);
  const Tensors inputs = BackwardInputs(rank, norm.width);
  if (rank.style.compiled) {
    // The other branch of the residual connection is added in the same kernel.
    writer->Fused("norm_backward", {gradient, gradient, gradient, gradient});
    if (!rank.style.frozen_weights) {
      writer->Fused("norm_weight_backward", {gradient, gradient});
    }
  } else if (EagerRmsNorm(rank)) {
    EagerRmsNormBackward(rank, norm.width, writer);
  } else {
    const char* op =
        rank.layer_norm ? "aten::native_layer_norm_backward" : "aten::_fused_rms_norm_backward";
    writer->Kernel(op, "layer_norm_grad_input_kernel", inputs);
    if (!rank.style.frozen_weights) {
      writer->Kernel(op, "GammaBetaBackwardCUDAKernel", inputs);
    }
  }
  if (sum != ResidualSum::kNone && !rank.style.compiled) {
    writer->Pointwise(sum == ResidualSum::kNew ? "aten::add" : "aten::add_", {gradient, gradient});
  }
  AccumulateGradient(rank, {norm.width}, norm.weight, writer);
  if (rank.layer_norm) {
    AccumulateGradient(rank, {norm.width}, norm.weight + 1, writer);
  }
}

void ResidualForward(const RankShape& rank, bool bias, bool before_norm, BlockWriter* writer) {
  const graph::TensorShape stream = rank.Outside(rank.hidden);
  const graph::TensorShape vector = Tensor(rank.dtype, {rank.hidden});
  if (rank.style.compiled) {
    if (!before_norm) {
      writer->Fused("add", {stream, stream, stream});
    }
    return;
  }
  if (rank.style.fused_bias_dropout_add && (bias || rank.style.dropout)) {
    Tensors accesses = {stream, stream, stream};
    if (bias) {
      accesses.push_back(vector);
    }
    if (rank.style.dropout) {
      accesses.push_back(Mask(stream));
    }
    writer->Fused("bias_dropout_add", accesses);
    return;
  }
  if (bias) {
    writer->Pointwise("aten::add", {stream, vector});
  }
  if (rank.style.dropout) {
    writer->Kernel("aten::native_dropout", "fused_dropout_kernel_vec", {stream});
  }
  writer->Pointwise("aten::add", {stream, stream});
}

void ResidualBackward(const RankShape& rank,
                      bool bias,
                      uint32_t bias_parameter,
                      BlockWriter* writer) {
  const graph::TensorShape stream = rank.Outside(rank.hidden);
  if (rank.style.dropout) {
    writer->Pointwise("aten::native_dropout_backward", {stream, Mask(stream)});
  }
  if (bias && !rank.style.frozen_weights) {
    ColumnSum(stream, rank.hidden, writer);
    AccumulateGradient(rank, {rank.hidden}, bias_parameter, writer);
  }
}

}  // namespace prism::slicer
