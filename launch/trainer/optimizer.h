// Mixed-precision Adam over flat shards: float32 master values and two moments for what this rank
// owns (all of it with ZeRO 0), gradient clipping by the global norm, NaN check.
#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "launch/trainer/parallel_groups.h"
#include "launch/trainer/parameter_storage.h"

namespace prism::launch {

class Optimizer {
 public:
  // Takes the current values of `shards` as master values. `groups` outlives it.
  Optimizer(const std::vector<OwnedShard>& shards, const ParallelGroups& groups);

  // Norm of the whole model's gradient, read on the host: the one point of an iteration where the
  // host waits for the device. Clips to kMaxGradNorm and updates the shards' values; with a norm
  // that is not finite, updates nothing.
  double Step();

 private:
  // Shards with one set of hyper-parameters.
  struct ParameterGroup {
    double weight_decay = 0.0;
    std::vector<at::Tensor> values;  // in the compute type, views into the buffers
    std::vector<at::Tensor> grads;
    std::vector<at::Tensor> masters;
    std::vector<at::Tensor> means;
    std::vector<at::Tensor> squares;
    std::vector<at::Tensor> steps;  // the same tensor for every shard
  };

  [[nodiscard]] at::Tensor GlobalNorm() const;
  void Update(ParameterGroup* group);

  const ParallelGroups& groups_;
  std::vector<ParameterGroup> parameter_groups_;
  std::vector<at::Tensor> all_grads_;
  at::Tensor norm_weights_;  // by shard of all_grads_
  at::Tensor step_;
};

}  // namespace prism::launch
