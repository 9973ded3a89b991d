// The parameters of a model's units (embedding, layer, head) as one rank holds them, in declaration
// order: the one list from which kernels and their gradients, the buffers that data parallelism
// reduces, the optimizer's lists and model states in memory all follow.
//
// A column-parallel matrix has a part of its outputs on each tensor-parallel rank, a row-parallel
// one a part of its inputs; the router, norms and compressing projections of latent attention are
// whole on all of them, so their gradients are partial sums if the sequence is divided.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/job/job.h"

namespace prism::graph {

// A matrix or vector: this rank's part.
struct UnitParameter {
  int64_t outputs = 0;             // rows; the length of a vector
  int64_t inputs = 1;              // columns
  int64_t count = 1;               // equal ones: one for each local expert
  bool split = false;              // divided over tp; else whole on every tp rank
  bool sequence_parallel = false;  // its gradient is a partial sum over tp
  bool decay = true;               // weight decay applies
  bool bias = false;               // of the weight before it
  bool tied = false;               // the embedding that the first and last stage share
  bool expert = false;             // divided over ep, reduced over the replicas of the experts
  int32_t uses = 1;                // gradient contributions in one backward pass

  [[nodiscard]] int64_t ElementCount() const { return outputs * inputs * count; }

  bool operator==(const UnitParameter&) const = default;
};

using UnitParameters = std::vector<UnitParameter>;

// `shares_embedding`: head and embedding are on one rank and tied, and the embedding's parameter is
// the head's as well.
UnitParameters EmbeddingParameters(const JobSpec& job, bool shares_embedding);
UnitParameters HeadParameters(const JobSpec& job, bool shares_embedding);

// `layer` counts over the whole model: the first ones of a mixture may be dense.
UnitParameters LayerParameters(const JobSpec& job, int64_t layer);

// Attention and feed-forward side by side: one norm, and one pair of products for both.
UnitParameters ParallelLayerParameters(const JobSpec& job);

// A layer that predicts a further token (Megatron-Core: transformer/multi_token_prediction.py):
// norms of the hidden states and of the next token's embedding, a product that joins them, a layer,
// a norm.
UnitParameters FurtherLayerParameters(const JobSpec& job, int64_t layer);

}  // namespace prism::graph
