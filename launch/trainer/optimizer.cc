#include "launch/trainer/optimizer.h"

#include <algorithm>
#include <cmath>

namespace prism::launch {
namespace {

// Hyper-parameters of the GPT-3 paper's recipe, as in Megatron's examples.
constexpr double kLearningRate = 1e-4;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.95;
constexpr double kEpsilon = 1e-8;
constexpr double kWeightDecay = 0.1;
constexpr double kMaxGradNorm = 1.0;
constexpr double kClipEpsilon = 1e-6;

}  // namespace

Optimizer::Optimizer(const std::vector<OwnedShard>& shards, const ParallelGroups& groups)
    : groups_(groups) {
  const at::NoGradGuard no_grad;
  const at::Device device = shards.front().value.device();
  step_ = at::zeros({}, at::TensorOptions(device).dtype(at::kFloat));
  std::vector<float> weights;
  for (const bool decay : {true, false}) {
    ParameterGroup group;
    group.weight_decay = decay ? kWeightDecay : 0.0;
    for (const OwnedShard& shard : shards) {
      if (shard.decay != decay) {
        continue;
      }
      group.values.push_back(shard.value);
      group.grads.push_back(shard.grad);
      group.masters.push_back(shard.value.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true));
      group.means.push_back(at::zeros_like(group.masters.back()));
      group.squares.push_back(at::zeros_like(group.masters.back()));
      group.steps.push_back(step_);
      all_grads_.push_back(shard.grad);
      weights.push_back(static_cast<float>(shard.norm_weight));
    }
    parameter_groups_.push_back(std::move(group));
  }
  norm_weights_ = at::tensor(weights).to(device);
}

// Every rank's shards count once; for those that several ranks have, see NormWeight.
at::Tensor Optimizer::GlobalNorm() const {
  const at::Tensor norms = at::stack(at::_foreach_norm(all_grads_, 2));
  at::Tensor sum = at::dot(norms.square(), norm_weights_);
  if (groups_.world.alone()) {
    AllReduce(groups_.tp, sum);
    AllReduce(groups_.ep, sum);
    AllReduce(groups_.pp, sum);
  } else {
    AllReduce(groups_.world, sum);
  }
  return sum.sqrt();
}

double Optimizer::Step() {
  const at::NoGradGuard no_grad;
  const double norm = static_cast<double>(GlobalNorm().item<float>());
  if (!std::isfinite(norm)) {
    return norm;
  }
  // Unconditional, so that the kernels do not depend on values.
  const double scale = std::min(1.0, kMaxGradNorm / (norm + kClipEpsilon));
  at::_foreach_mul_(all_grads_, scale);
  step_.add_(1);
  for (ParameterGroup& group : parameter_groups_) {
    if (!group.values.empty()) {
      Update(&group);
    }
  }
  return norm;
}

void Optimizer::Update(ParameterGroup* group) {
  at::_fused_adamw_(group->masters, group->grads, group->means, group->squares, {}, group->steps,
                    kLearningRate, kBeta1, kBeta2, group->weight_decay, kEpsilon,
                    /*amsgrad=*/false,
                    /*maximize=*/false);
  at::_foreach_copy_(group->values, group->masters);
}

}  // namespace prism::launch
