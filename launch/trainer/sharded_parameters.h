// ZeRO 3: the parameters of a model chunk, sharded over its data-parallel ranks unit by unit (the
// embedding, a layer, the head).
//
// A unit is gathered before its forward pass and again before its backward pass, and freed after
// each. When a unit begins to compute, the next one is already being gathered; after its backward
// pass its gradients are reduce-scattered in every micro-batch (grad_scatter.h). This is FSDP2's
// fully_shard with reshard_after_forward; in addition to the float32 masters a shard keeps values
// in the compute type, as in DeepSpeed and Megatron's FSDP. Two units stay gathered from their
// forward to their backward pass, as in FSDP2: the head without a pipeline, whose backward pass
// follows immediately, and embedding and head if they share a tied weight, which makes them one
// unit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "launch/trainer/parameter_storage.h"
#include "launch/trainer/sharded_unit.h"

namespace prism::launch {

class ShardedParameters : public ParameterStorage {
 public:
  struct Options {
    at::TensorOptions values;
    bool keeps_last = false;  // the last place, from its forward to its backward pass
  };

  // `units`: by unit. `places`: the unit at every place of the chunk, in forward order. `groups`
  // and `scatter` outlive it.
  ShardedParameters(const std::vector<std::vector<ShardedUnit::Members>>& units,
                    std::vector<size_t> places,
                    const Options& options,
                    const ParallelGroups& groups,
                    GradScatter* scatter);
  ~ShardedParameters() override = default;

  // One unit after the other: lets `initialize` set the whole values of every parameter.
  void Initialize(const std::function<void(Parameter*)>& initialize);

  // Around the passes of the unit at a place of the chunk.
  void BeginForward(size_t place);
  void EndForward(size_t place);
  void BeginBackward(size_t place);
  void EndBackward(size_t place);

  void AllocateGradients() override;
  void ZeroGradients() override;
  void BeginLastMicrobatch() override {}
  void FinishReduction() override;
  void StartGather() override {}
  void FinishGather() override {}
  [[nodiscard]] std::vector<OwnedShard> OwnedShards() const override;

 private:
  ShardedUnit& UnitAt(size_t place) { return *units_[places_[place]]; }

  const ParallelGroups& groups_;
  GradScatter* scatter_;
  std::vector<std::unique_ptr<ShardedUnit>> units_;
  std::vector<size_t> places_;
  bool keeps_last_;
  std::map<ParameterKind, at::Tensor> gradients_;  // shards of all units, one after the other
};

}  // namespace prism::launch
