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
  AdaptBranches(AdapterForward, writer);
  ForwardActivation(writer);
  RowForward(rank_, out_, writer);
  if (rank_.style.adapters_of_all) {
    AdapterForward(rank_, out_, writer);
  }
}

// Each branch of SwiGLU has adapters of its own.
void DenseFeedForward::AdaptBranches(decltype(AdapterForward) adapt, BlockWriter* writer) const {
  const int64_t branches = rank_.style.adapters_of_all ? rank_.ffn_matrices - 1 : 0;
  Linear branch = in_;
  for (int64_t i = 0; i < branches; ++i) {
    branch.outputs = in_.outputs / branches;
    adapt(rank_, branch, writer);
  }
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
  const bool inputs = part != BackwardPart::kWeight;
  if (inputs && rank_.style.adapters_of_all) {
    AdapterBackward(rank_, out_, writer);
  }
  RowBackward(rank_, out_, part, writer);
  if (inputs) {
    ActivationBackward(rank_, activation_, writer);
    AdaptBranches(AdapterBackward, writer);
  }
  ColumnBackward(rank_, in_, part, writer);
}

}  // namespace prism::slicer
