#include "slicer/synthesize/blocks/feed_forward.h"

#include <vector>

namespace prism::slicer {

DenseFeedForward::DenseFeedForward(const RankShape& rank, int64_t width, ParameterList* parameters)
    : rank_(rank) {
  // SwiGLU has two branches, and each tensor-parallel rank a part of both.
  const std::vector<int64_t> one = {width, rank.hidden};
  const std::vector<int64_t> two = {2, width, rank.hidden};
  in_ = parameters->DeclareColumn(rank.ffn_matrices == 2 ? one : two);
  in_.bias_in_epilogue = rank.built_in || !rank.style.fused_bias_activation;
  out_ = parameters->DeclareRow(rank.hidden, width);
  activation_ = {.rows = {rank.sequence, rank.batch},
                 .width = width,
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
