// Megatron's tensor and sequence parallelism as autograd functions. Activations are [sequence,
// batch, width]; under sequence parallelism they are sharded over the sequence outside the parallel
// linear layers.
#pragma once

#include <ATen/ATen.h>

#include "launch/trainer/parallel_groups.h"
#include "launch/trainer/parameters.h"

namespace prism::launch {

// What every tensor-parallel function needs; outlives the autograd graphs that refer to it.
struct TensorParallel {
  const Group* group = nullptr;
  bool sequence_parallel = false;

  [[nodiscard]] int32_t size() const { return group->size(); }
  [[nodiscard]] int32_t index() const { return group->index(); }
};

// input · weightᵀ + bias, weight split by rows over the group. Gathers a sequence-sharded input in
// forward and again in backward (only the shard is kept in between). The weight's gradient goes
// directly to its accumulator, bypassing autograd. A null bias means none.
at::Tensor ColumnParallelLinear(const at::Tensor& input,
                                const Parameter& weight,
                                const Parameter* bias,
                                const TensorParallel& tp);

// input · weightᵀ, weight split by columns: the partial products are summed over the group, and
// scattered over the sequence under sequence parallelism. The caller adds the bias.
at::Tensor RowParallelLinear(const at::Tensor& input,
                             const Parameter& weight,
                             const TensorParallel& tp);

// input · weightᵀ with a weight that every rank has whole, each rank on its own tokens.
at::Tensor ReplicatedLinear(const at::Tensor& input, const Parameter& weight);

// Under sequence parallelism concatenates all ranks' parts along the first dimension; in backward
// the sum of their gradients is scattered. Identity otherwise.
at::Tensor GatherToParallelRegion(const at::Tensor& shard, const TensorParallel& tp);

// Sum over the group and, under sequence parallelism, scatter along the sequence.
at::Tensor ReduceToParallelRegion(const at::Tensor& partial, const TensorParallel& tp);

// Sum over the group; identity in backward.
at::Tensor ReduceFromGroup(const at::Tensor& partial, const TensorParallel& tp);

// Keeps this rank's part of the sequence; gathers in backward. Identity without sequence
// parallelism.
at::Tensor ScatterSequence(const at::Tensor& whole, const TensorParallel& tp);

// Rows of an embedding table that is split over the group by vocabulary: a partial result that is
// zero if another rank has the row. ids [batch, sequence] → [batch, sequence, width].
at::Tensor VocabParallelEmbedding(const at::Tensor& ids,
                                  const Parameter& weight,
                                  const TensorParallel& tp);

// Per-token loss in float32 of logits [sequence, batch, vocabulary / tp] against targets [sequence,
// batch]; the softmax is never gathered. Does not overwrite the caller's tensors.
at::Tensor VocabParallelCrossEntropy(const at::Tensor& logits,
                                     const at::Tensor& targets,
                                     const TensorParallel& tp);

}  // namespace prism::launch
