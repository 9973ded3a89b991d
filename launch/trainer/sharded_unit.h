// The parameters of one unit of a model chunk (embedding, a layer, head) under ZeRO 3: this rank's
// persistent shard of the values, and the temporary whole values and gradients.
//
// Every kind of parameter is flat and padded separately, so that a shard holds the same piece of
// every kind on every rank (grad_buffer.h says why). A rank's shard has its pieces one after the
// other: one all-gather fetches the unit, which is then copied out kind by kind, and one
// reduce-scatter sends its gradients, which are copied in the same way, as FSDP2 does parameter by
// parameter (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "launch/trainer/grad_accumulator.h"
#include "launch/trainer/grad_scatter.h"
#include "launch/trainer/parallel_groups.h"
#include "launch/trainer/parameter_kind.h"

namespace prism::launch {

struct Parameter;

class ShardedUnit : private GradSink {
 public:
  struct Members {
    ParameterKind kind;
    std::vector<Parameter*> parameters;
  };

  // Lays the parameters out and sets their values to views of whole tensors. `groups` outlives the
  // unit.
  ShardedUnit(const std::vector<Members>& members,
              const at::TensorOptions& values,
              const ParallelGroups& groups);
  ShardedUnit(const ShardedUnit&) = delete;
  ShardedUnit& operator=(const ShardedUnit&) = delete;
  ~ShardedUnit() override = default;

  // Makes whole values of zero, for `initialize` to fill; then keeps only this rank's part of them.
  void Initialize(const std::function<void(Parameter*)>& initialize);

  // Whole values: starts gathering them unless they are present or in flight; waits for them; frees
  // them.
  void StartGather();
  void Unshard();
  void Reshard();

  // Gives every parameter its accumulator.
  void HookGradients();

  // Zeroed gradients for a micro-batch, unless present already.
  void OpenGradients();

  // Sends the mean of the gradients to their owners and frees them. No other transfer may be in
  // flight.
  void StartReduction(GradScatter* scatter);

  [[nodiscard]] size_t kind_count() const { return pieces_.size(); }
  [[nodiscard]] const ParameterKind& kind(size_t index) const { return pieces_[index].kind; }
  [[nodiscard]] int64_t shard_elements(size_t index) const { return pieces_[index].elements; }
  [[nodiscard]] at::Tensor ValueShard(size_t index) const;
  [[nodiscard]] at::Tensor GradShard(size_t index) const { return pieces_[index].grad_shard; }
  void set_grad_shard(size_t index, at::Tensor shard) {
    pieces_[index].grad_shard = std::move(shard);
  }

 private:
  // One kind of the unit.
  struct Piece {
    ParameterKind kind;
    int64_t begin = 0;     // in a rank's shard
    int64_t elements = 0;  // of a rank's shard
    at::Tensor values;     // whole; without memory while sharded
    at::Tensor data;       // the same, past autograd
    at::Tensor grad_shard;
  };

  struct Place {
    Parameter* parameter = nullptr;
    int64_t begin = 0;  // in the whole gradients
  };

  at::Tensor Open(size_t place) override;
  void CountReady(size_t place) override;
  [[nodiscard]] int64_t ranks() const { return groups_.dp.size(); }
  [[nodiscard]] bool gathered() const;

  const ParallelGroups& groups_;
  std::vector<Piece> pieces_;
  std::vector<Place> places_;
  std::vector<std::unique_ptr<GradAccumulator>> accumulators_;
  int64_t shard_size_ = 0;  // elements
  at::Tensor shard_;
  at::Tensor arriving_;  // [ranks, shard]
  Handle gather_;
  at::Tensor gradients_;  // whole, float32, kind by kind
};

}  // namespace prism::launch
