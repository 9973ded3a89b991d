#include "slicer/synthesize/blocks/self_attention.h"

#include "slicer/synthesize/blocks/attention.h"

namespace prism::slicer {

SelfAttention::SelfAttention(const RankShape& rank, ParameterList* parameters) : rank_(rank) {
  if (rank.job.model.latent.kv_rank > 0) {
    DeclareLatent(parameters);
  } else {
    query_key_value_ = parameters->DeclareColumn({rank.qkv_width(), rank.hidden});
  }
  projection_ = parameters->DeclareRow(rank.hidden, rank.heads * rank.value_size);
}

// None of its products has a bias (Megatron-Core: transformer/multi_latent_attention.py).
void SelfAttention::DeclareLatent(ParameterList* parameters) {
  const graph::LatentAttention& latent = rank_.job.model.latent;
  const int64_t query_width = rank_.heads * rank_.head_size;
  if (latent.q_rank > 0) {
    Compressed query;
    query.down = parameters->DeclareReplicated(latent.q_rank, rank_.hidden);
    query.norm = parameters->DeclareNorm(latent.q_rank);
    query.up = parameters->DeclareUnbiasedColumn({query_width, latent.q_rank});
    latent_query_ = query;
  } else {
    query_ = parameters->DeclareUnbiasedColumn({query_width, rank_.hidden});
  }
  Compressed key_value;
  key_value.down = parameters->DeclareReplicated(latent.kv_rank + latent.rope_dim, rank_.hidden);
  key_value.norm = parameters->DeclareNorm(latent.kv_rank);
  // The positional part is not expanded.
  const int64_t key_size = rank_.head_size - latent.rope_dim;
  key_value.up = parameters->DeclareUnbiasedColumn(
      {rank_.heads * (key_size + rank_.value_size), latent.kv_rank});
  latent_key_value_ = key_value;
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
