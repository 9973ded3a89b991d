// Where parameters of a model chunk and their gradients live, as the trainer and the optimizer see
// it: flat buffers (grad_buffer.h), or shards by unit (sharded_parameters.h).
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "launch/trainer/parallel_groups.h"

namespace prism::launch {

// A flat piece of parameters of one kind that this rank's optimizer updates.
struct OwnedShard {
  at::Tensor value;  // in the compute type
  at::Tensor grad;   // float32, as long
  bool decay = true;
  // The weight of its squared norm in the sum over all ranks that have one.
  double norm_weight = 1;
};

class ParameterStorage {
 public:
  virtual ~ParameterStorage() = default;
  ParameterStorage(const ParameterStorage&) = delete;
  ParameterStorage& operator=(const ParameterStorage&) = delete;

  // Allocates the gradients, gives every parameter its accumulator, and hooks it into backward for
  // the gradients that autograd computes.
  virtual void AllocateGradients() = 0;

  virtual void ZeroGradients() = 0;

  // The last of the iteration; call before its backward pass.
  virtual void BeginLastMicrobatch() = 0;

  // Waits for the reductions, then sums gradients of which other groups hold a part:
  // sequence-parallel gradients over tp, those of tied embeddings over the embedding group.
  virtual void FinishReduction() = 0;

  // Gathers the values that the optimizer of each dp rank has updated, if all ranks keep them.
  virtual void StartGather() = 0;
  virtual void FinishGather() = 0;

  [[nodiscard]] virtual std::vector<OwnedShard> OwnedShards() const = 0;

 protected:
  ParameterStorage() = default;
};

}  // namespace prism::launch
