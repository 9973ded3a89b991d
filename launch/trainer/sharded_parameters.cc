#include "launch/trainer/sharded_parameters.h"

#include <utility>

namespace prism::launch {

ShardedParameters::ShardedParameters(const std::vector<std::vector<ShardedUnit::Members>>& units,
                                     std::vector<size_t> places,
                                     const Options& options,
                                     const ParallelGroups& groups,
                                     GradScatter* scatter)
    : groups_(groups),
      scatter_(scatter),
      places_(std::move(places)),
      keeps_last_(options.keeps_last) {
  for (const std::vector<ShardedUnit::Members>& members : units) {
    units_.push_back(std::make_unique<ShardedUnit>(members, options.values, groups));
  }
}

void ShardedParameters::Initialize(const std::function<void(Parameter*)>& initialize) {
  for (const auto& unit : units_) {
    unit->Initialize(initialize);
  }
}

void ShardedParameters::BeginForward(size_t place) {
  UnitAt(place).Unshard();
  if (place + 1 < places_.size()) {
    UnitAt(place + 1).StartGather();
  }
}

void ShardedParameters::EndForward(size_t place) {
  const bool shared = places_[place] == places_.back() && place + 1 < places_.size();
  if (!shared && !(keeps_last_ && place + 1 == places_.size())) {
    UnitAt(place).Reshard();
  }
}

void ShardedParameters::BeginBackward(size_t place) {
  UnitAt(place).Unshard();
  if (place > 0) {
    UnitAt(place - 1).StartGather();
  }
  UnitAt(place).OpenGradients();
}

// A unit with several places is complete at its first one.
void ShardedParameters::EndBackward(size_t place) {
  if (place > 0 && places_[place] == places_.front()) {
    return;
  }
  UnitAt(place).Reshard();
  scatter_->Finish();
  UnitAt(place).StartReduction(scatter_);
}

// Shards of one kind are in one tensor, so that other groups can sum them in one reduction.
void ShardedParameters::AllocateGradients() {
  std::map<ParameterKind, int64_t> elements;
  for (const auto& unit : units_) {
    unit->HookGradients();
    for (size_t i = 0; i < unit->kind_count(); ++i) {
      elements[unit->kind(i)] += unit->shard_elements(i);
    }
  }
  const at::TensorOptions options = units_.front()->ValueShard(0).options().dtype(at::kFloat);
  for (const auto& [kind, count] : elements) {
    gradients_[kind] = at::zeros({count}, options);
  }
  std::map<ParameterKind, int64_t> begin;
  for (const auto& unit : units_) {
    for (size_t i = 0; i < unit->kind_count(); ++i) {
      int64_t& at = begin[unit->kind(i)];
      unit->set_grad_shard(i, gradients_[unit->kind(i)].narrow(0, at, unit->shard_elements(i)));
      at += unit->shard_elements(i);
    }
  }
}

void ShardedParameters::ZeroGradients() {
  for (auto& [kind, gradients] : gradients_) {
    gradients.zero_();
  }
}

void ShardedParameters::FinishReduction() {
  for (const auto& [kind, gradients] : gradients_) {
    if (kind.sequence_parallel) {
      AllReduce(groups_.tp, gradients);
    }
    if (kind.tied) {
      AllReduce(groups_.embedding, gradients);
    }
  }
}

std::vector<OwnedShard> ShardedParameters::OwnedShards() const {
  std::vector<OwnedShard> shards;
  for (const auto& unit : units_) {
    for (size_t i = 0; i < unit->kind_count(); ++i) {
      const ParameterKind& kind = unit->kind(i);
      shards.push_back({unit->ValueShard(i), unit->GradShard(i), kind.decay,
                        NormWeight(kind, /*sharded=*/true, groups_)});
    }
  }
  return shards;
}

}  // namespace prism::launch
