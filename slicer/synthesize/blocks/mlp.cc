#include "slicer/synthesize/blocks/mlp.h"

#include <string>

namespace prism::slicer {
namespace {

using graph::BlockKind;

class Writer {
 public:
  Writer(const RankShape& rank, const Activation& activation, BlockWriter* writer)
      : rank_(rank), activation_(activation), writer_(writer) {}

  void Forward() const {
    if (Fused()) {
      writer_->Fused(Name(), WithBias({In(), Out()}));
    } else if (rank_.llama) {
      writer_->Pointwise("aten::silu", {Out()});
      writer_->Pointwise(rank_.built_in ? "aten::mul_" : "aten::mul", {Out(), Out()});
    } else if (rank_.job.model.block == BlockKind::kNemotron) {
      writer_->Pointwise("aten::relu", {Out()});
      writer_->Pointwise("aten::pow", {Out()});
    } else {
      writer_->Pointwise("aten::gelu", {Out()});
    }
  }

  void Backward() const {
    if (Fused()) {
      writer_->Fused(Name() + "_backward", WithBias({Out(), In(), In()}));
    } else if (rank_.llama) {
      SwiGluBackward();
    } else if (rank_.job.model.block == BlockKind::kNemotron) {
      writer_->Pointwise("aten::mul", {Out(), Out()});
      writer_->Pointwise("aten::threshold_backward", {Out(), Out()});
    } else {
      writer_->Pointwise("aten::gelu_backward", {Out(), Out()});
    }
  }

 private:
  [[nodiscard]] bool Fused() const {
    return !rank_.built_in && (rank_.style.fused_bias_activation || rank_.style.compiled);
  }

  [[nodiscard]] std::string Name() const {
    if (rank_.llama) {
      return "swiglu";
    }
    return rank_.job.model.block == BlockKind::kNemotron ? "squared_relu" : "bias_gelu";
  }

  [[nodiscard]] Tensors WithBias(Tensors inputs) const {
    if (activation_.bias) {
      inputs.push_back(Tensor(rank_.dtype, {activation_.width}));
    }
    return inputs;
  }

  void SwiGluBackward() const {
    writer_->Pointwise("aten::silu", {Out()});
    writer_->Pointwise("aten::mul_", {Out(), Out()});
    writer_->Pointwise("aten::mul", {Out(), Out()});
    writer_->Pointwise("aten::silu_backward", {Out(), Out()});
    writer_->Kernel("aten::cat", "CatArrayBatchedCopy", {Out(), Out()});
  }

  [[nodiscard]] graph::TensorShape Of(int64_t width) const {
    std::vector<int64_t> dims = activation_.rows;
    dims.push_back(width);
    return Tensor(rank_.dtype, std::move(dims));
  }

  [[nodiscard]] graph::TensorShape In() const {
    return Of((rank_.ffn_matrices - 1) * activation_.width);
  }

  [[nodiscard]] graph::TensorShape Out() const { return Of(activation_.width); }

  const RankShape& rank_;
  const Activation& activation_;
  BlockWriter* writer_;
};

}  // namespace

void ActivationForward(const RankShape& rank, const Activation& activation, BlockWriter* writer) {
  Writer(rank, activation, writer).Forward();
}

void ActivationBackward(const RankShape& rank, const Activation& activation, BlockWriter* writer) {
  Writer(rank, activation, writer).Backward();
}

}  // namespace prism::slicer
