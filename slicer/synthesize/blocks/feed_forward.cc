#include "slicer/synthesize/blocks/feed_forward.h"

namespace prism::slicer {

DenseFeedForward::DenseFeedForward(const RankShape& rank, ParameterList* parameters) : rank_(rank) {
  in_ = parameters->TakeLinear();
  in_.bias_in_epilogue = rank.built_in || !rank.style.fused_bias_activation;
  out_ = parameters->TakeLinear();
  activation_ = {.rows = {rank.sequence, rank.batch},
                 .width = out_.inputs,
                 .bias = in_.bias && !in_.bias_in_epilogue};
}

void DenseFeedForward::Forward(BlockWriter* writer) const {
  ColumnForward(rank_, in_, writer);
  ForwardActivation(writer);
  RowForward(rank_, out_, writer);
}

void DenseFeedForward::ForwardActivation(BlockWriter* writer) const {
  slicer::ActivationForward(rank_, activation_, writer);
}

// Of the three products of SwiGLU the second one: the other branch.
void DenseFeedForward::ForwardEverySecondMatmul(BlockWriter* writer) const {
  Linear branch = in_;
  branch.outputs = in_.outputs / (rank_.ffn_matrices - 1);
  ColumnForward(rank_, branch, writer);
  ForwardActivation(writer);
}

void DenseFeedForward::Backward(BackwardPart part, BlockWriter* writer) const {
  RowBackward(rank_, out_, part, writer);
  if (part != BackwardPart::kWeight) {
    ActivationBackward(rank_, activation_, writer);
  }
  ColumnBackward(rank_, in_, part, writer);
}

}  // namespace prism::slicer
