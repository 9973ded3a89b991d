#include <vector>

#include "slicer/synthesize/blocks/attention.h"
#include "slicer/synthesize/blocks/blocks.h"
#include "slicer/synthesize/blocks/linear.h"
#include "slicer/synthesize/blocks/mlp.h"
#include "slicer/synthesize/blocks/norm.h"

namespace prism::slicer {
namespace {

using graph::Recompute;

// A dense transformer layer: norm, attention, residual, norm, feed-forward, residual.
class LayerWriter {
 public:
  LayerWriter(const RankShape& rank, const UnitPlace& place, BlockTables* tables)
      : rank_(rank), place_(place), writer_(tables) {
    attention_norm_ = DeclareNorm();
    query_key_value_ = DeclareColumn(rank.hidden, {rank.qkv_width(), rank.hidden});
    projection_ = DeclareRow(rank.query_width(), rank.hidden);
    mlp_norm_ = DeclareNorm();
    const std::vector<int64_t> branches = {rank.ffn_matrices - 1, rank.ffn, rank.hidden};
    mlp_in_ = DeclareColumn(rank.hidden, rank.ffn_matrices == 2
                                             ? std::vector<int64_t>{rank.ffn, rank.hidden}
                                             : branches);
    mlp_in_.bias_in_epilogue = rank.built_in || !rank.style.fused_bias_activation;
    mlp_out_ = DeclareRow(rank.ffn, rank.hidden);
    activation_ = {.rows = {rank.sequence, rank.batch},
                   .width = rank.ffn,
                   .bias = mlp_in_.bias && !mlp_in_.bias_in_epilogue};
  }

  [[nodiscard]] const std::vector<BlockParameter>& parameters() const { return parameters_; }

  Block Forward() {
    WriteForward();
    return writer_.Finish();
  }

  Block Backward(BackwardPart part) {
    if (part == BackwardPart::kWeight) {
      RowBackward(rank_, mlp_out_, part, &writer_);
      ColumnBackward(rank_, mlp_in_, part, &writer_);
      RowBackward(rank_, projection_, part, &writer_);
      ColumnBackward(rank_, query_key_value_, part, &writer_);
      return writer_.Finish();
    }
    if (rank_.job.recompute == Recompute::kFull) {
      WriteForward();
    }
    MlpBackward(part);
    AttentionBackward(part);
    return writer_.Finish();
  }

 private:
  // Parameters in the order in which launch/workload/transformer_layer.cc declares them.
  uint32_t Declare(BlockParameter parameter) {
    parameters_.push_back(std::move(parameter));
    return static_cast<uint32_t>(parameters_.size() - 1);
  }

  uint32_t DeclareNorm() {
    const BlockParameter parameter = {
        .shape = {rank_.hidden}, .sequence_parallel = rank_.sequence_parallel, .decay = false};
    const uint32_t weight = Declare(parameter);
    if (rank_.layer_norm) {
      Declare(parameter);
    }
    return weight;
  }

  Linear DeclareColumn(int64_t inputs, std::vector<int64_t> shape) {
    Linear linear;
    linear.inputs = inputs;
    linear.outputs = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) {
      linear.outputs *= shape[i];
    }
    const std::vector<int64_t> bias_shape(shape.begin(), shape.end() - 1);
    linear.weight = Declare({.shape = std::move(shape), .split = true});
    linear.bias = rank_.has_bias;
    if (linear.bias) {
      Declare({.shape = bias_shape, .split = true, .decay = false});
    }
    return linear;
  }

  Linear DeclareRow(int64_t inputs, int64_t outputs) {
    Linear linear;
    linear.inputs = inputs;
    linear.outputs = outputs;
    linear.weight = Declare({.shape = {outputs, inputs}, .split = true});
    linear.bias = rank_.has_bias;
    if (linear.bias) {
      Declare({.shape = {outputs}, .sequence_parallel = rank_.sequence_parallel, .decay = false});
    }
    return linear;
  }

  [[nodiscard]] bool Recomputes(graph::RecomputePart part) const {
    return rank_.job.recompute == Recompute::kSelective &&
           (rank_.style.recompute_parts & part) != 0;
  }

  void WriteForward() {
    NormForward(rank_, /*after_add=*/false, &writer_);
    ColumnForward(rank_, query_key_value_, &writer_);
    SplitForward(rank_, &writer_);
    CoreForward(rank_, &writer_);
    RowForward(rank_, projection_, &writer_);
    ResidualForward(rank_, projection_.bias, /*before_norm=*/true, &writer_);
    NormForward(rank_, /*after_add=*/true, &writer_);
    WriteMlpForward();
    ResidualForward(rank_, mlp_out_.bias, /*before_norm=*/false, &writer_);
  }

  void WriteMlpForward() {
    ColumnForward(rank_, mlp_in_, &writer_);
    ActivationForward(rank_, activation_, &writer_);
    RowForward(rank_, mlp_out_, &writer_);
  }

  void MlpBackward(BackwardPart part) {
    ResidualBackward(rank_, mlp_out_.bias, mlp_out_.weight + 1, &writer_);
    if (Recomputes(graph::kRecomputeNorm)) {
      NormForward(rank_, /*after_add=*/false, &writer_);
    }
    if (Recomputes(graph::kRecomputeMlp)) {
      WriteMlpForward();
    } else if (Recomputes(graph::kRecomputeActivation)) {
      ActivationForward(rank_, activation_, &writer_);
    }
    RowBackward(rank_, mlp_out_, part, &writer_);
    ActivationBackward(rank_, activation_, &writer_);
    ColumnBackward(rank_, mlp_in_, part, &writer_);
    // A recomputed layer is a graph of its own, whose gradient always comes from outside.
    const bool outside = place_.gradient_received || rank_.job.recompute == Recompute::kFull;
    NormBackward(rank_, mlp_norm_, outside ? ResidualSum::kNew : ResidualSum::kInPlace, &writer_);
  }

  void AttentionBackward(BackwardPart part) {
    ResidualBackward(rank_, projection_.bias, projection_.weight + 1, &writer_);
    if (Recomputes(graph::kRecomputeNorm)) {
      NormForward(rank_, /*after_add=*/false, &writer_);
    }
    RowBackward(rank_, projection_, part, &writer_);
    if (Recomputes(graph::kRecomputeCoreAttention)) {
      CoreForward(rank_, &writer_);
    }
    CoreBackward(rank_, &writer_);
    SplitBackward(rank_, &writer_);
    ColumnBackward(rank_, query_key_value_, part, &writer_);
    NormBackward(rank_, attention_norm_, ResidualSum::kInPlace, &writer_);
  }

  const RankShape& rank_;
  UnitPlace place_;
  BlockWriter writer_;
  std::vector<BlockParameter> parameters_;
  uint32_t attention_norm_ = 0;
  Linear query_key_value_;
  Linear projection_;
  uint32_t mlp_norm_ = 0;
  Linear mlp_in_;
  Linear mlp_out_;
  Activation activation_;
};

}  // namespace

UnitBlocks LayerUnit(const RankShape& rank, const UnitPlace& place, BlockTables* tables) {
  LayerWriter writer(rank, place, tables);
  UnitBlocks unit;
  unit.parameters = writer.parameters();
  unit.forward = writer.Forward();
  unit.backward = writer.Backward(BackwardPart::kAll);
  if (rank.style.schedule == graph::Schedule::kZeroBubble) {
    unit.backward_input = writer.Backward(BackwardPart::kInput);
    unit.backward_weight = writer.Backward(BackwardPart::kWeight);
  }
  return unit;
}

}  // namespace prism::slicer
