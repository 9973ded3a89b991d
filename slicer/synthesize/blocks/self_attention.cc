#include "slicer/synthesize/blocks/self_attention.h"

#include "slicer/synthesize/blocks/attention.h"

namespace prism::slicer {

SelfAttention::SelfAttention(const RankShape& rank, ParameterList* parameters) : rank_(rank) {
  const graph::LatentAttention& latent = rank.job.model.latent;
  if (latent.kv_rank == 0) {
    query_key_value_ = parameters->TakeLinear();
  } else if (latent.q_rank == 0) {
    query_ = parameters->TakeLinear();
  } else {
    latent_query_ = TakeCompressed(parameters);
  }
  if (latent.kv_rank > 0) {
    latent_key_value_ = TakeCompressed(parameters);
  }
  projection_ = parameters->TakeLinear();
}

SelfAttention::Compressed SelfAttention::TakeCompressed(ParameterList* parameters) {
  Compressed compressed;
  compressed.down = parameters->TakeLinear();
  compressed.norm = parameters->TakeNorm();
  compressed.up = parameters->TakeLinear();
  return compressed;
}

void SelfAttention::Forward(BlockWriter* writer) const {
  ProjectForward(writer);
  CoreForward(rank_, writer);
  RowForward(rank_, projection_, writer);
  AdapterForward(rank_, projection_, writer);
}

void SelfAttention::Backward(BackwardPart part, BlockWriter* writer) const {
  if (part != BackwardPart::kWeight) {
    AdapterBackward(rank_, projection_, writer);
  }
  RowBackward(rank_, projection_, part, writer);
  if (part == BackwardPart::kWeight) {
    ProjectBackward(part, writer);
    return;
  }
  if (rank_.Recomputes(graph::kRecomputeUpProjection)) {
    ProjectForward(writer);
  }
  CoreBackward(rank_, writer);
  ProjectBackward(part, writer);
}

void SelfAttention::ForwardEverySecondMatmul(BlockWriter* writer) const {
  Linear keys = query_key_value_;
  keys.inputs = rank_.hidden;
  keys.outputs = rank_.kv_heads * rank_.head_size;
  keys.bias = false;
  ColumnForward(rank_, keys, writer);
  SplitForward(rank_, writer);
  Linear output = projection_;
  output.bias = false;
  LocalForward(rank_, output, rank_.tokens(), writer);
}

void SelfAttention::ProjectForward(BlockWriter* writer) const {
  if (!latent_key_value_) {
    ColumnForward(rank_, query_key_value_, writer);
    AdapterForward(rank_, query_key_value_, writer);
  } else {
    latent_query_ ? CompressedForward(*latent_query_, writer)
                  : ColumnForward(rank_, *query_, writer);
    CompressedForward(*latent_key_value_, writer);
  }
  SplitForward(rank_, writer);
}

void SelfAttention::ProjectBackward(BackwardPart part, BlockWriter* writer) const {
  if (part != BackwardPart::kWeight) {
    SplitBackward(rank_, writer);
  }
  if (!latent_key_value_) {
    if (part != BackwardPart::kWeight) {
      AdapterBackward(rank_, query_key_value_, writer);
    }
    ColumnBackward(rank_, query_key_value_, part, writer);
    return;
  }
  CompressedBackward(*latent_key_value_, part, writer);
  latent_query_ ? CompressedBackward(*latent_query_, part, writer)
                : ColumnBackward(rank_, *query_, part, writer);
}

void SelfAttention::CompressedForward(const Compressed& compressed, BlockWriter* writer) const {
  ReplicatedForward(rank_, compressed.down, writer);
  NormForward(rank_, compressed.norm, /*after_add=*/false, writer);
  ColumnForward(rank_, compressed.up, writer);
}

void SelfAttention::CompressedBackward(const Compressed& compressed,
                                       BackwardPart part,
                                       BlockWriter* writer) const {
  ColumnBackward(rank_, compressed.up, part, writer);
  if (part != BackwardPart::kWeight) {
    NormBackward(rank_, compressed.norm, ResidualSum::kNone, writer);
  }
  ReplicatedBackward(rank_, compressed.down, part, writer);
}

}  // namespace prism::slicer
