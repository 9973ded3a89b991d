// Flat storage of parameters of one kind: values in the compute type, gradients accumulated in
// float32 (Megatron's ParamAndGradBuffer), divided into buckets that data parallelism reduces one
// by one while the backward pass of the last micro-batch is still running.
//
// Kinds are kept separate so that a flat shard is uniform: every parameter of a buffer has the same
// weight decay and the same weight in the gradient norm, and padded buckets give every dp rank a
// shard of equal size. So all dp ranks of a stage run the same kernels, whichever parameters their
// shards contain. (Megatron keeps one buffer and iterates over the pieces of parameters in a
// shard.)
//
// ZeRO 2 keeps only this rank's shards of the gradients: in every micro-batch a bucket has its own
// whole gradients from the first contribution until they are reduce-scattered (grad_scatter.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "launch/trainer/grad_accumulator.h"
#include "launch/trainer/grad_scatter.h"
#include "launch/trainer/parallel_groups.h"
#include "launch/trainer/parameter_kind.h"
#include "launch/trainer/parameter_storage.h"

namespace prism::launch {

struct Parameter;

struct GradBufferOptions {
  ParameterKind kind;
  bool shard = true;  // ZeRO 1: reduce-scatter and a shard of the optimizer; false without replicas
  bool shard_gradients = false;  // ZeRO 2: keeps only the shard of gradients; needs `shard`
  at::TensorOptions values;      // type and device
};

class GradBuffer : public ParameterStorage, private GradSink {
 public:
  // Lays out `parameters` in the given order (that of the backward pass) and sets their values to
  // views of the buffer. `groups` and `scatter` outlive the buffer.
  GradBuffer(const std::vector<Parameter*>& parameters,
             const GradBufferOptions& options,
             const ParallelGroups& groups,
             GradScatter* scatter);
  ~GradBuffer() override = default;

  void AllocateGradients() override;
  void ZeroGradients() override;

  // From now on a bucket's reduction starts as soon as all its gradients are complete. With ZeRO 2
  // it does so in every micro-batch.
  void BeginLastMicrobatch() override;
  void FinishReduction() override;

  // ZeRO 1 and 2.
  void StartGather() override;
  void FinishGather() override;

  // One shard per bucket; the whole bucket with ZeRO 0.
  [[nodiscard]] std::vector<OwnedShard> OwnedShards() const override;

 private:
  struct Bucket {
    int64_t begin = 0;  // elements in the buffer
    int64_t end = 0;    // padding included
    int expected = 0;   // contributions of one micro-batch
    int ready = 0;      // so far, in the last micro-batch (ZeRO 2: in any)
    at::Tensor whole;   // ZeRO 2: gradients of this micro-batch, from the first one on
    Handle reduction;
    Handle gather;
  };

  struct Placement {
    Parameter* parameter = nullptr;
    int64_t begin = 0;
    size_t bucket = 0;
  };

  void LayOut(const std::vector<Parameter*>& parameters);
  // Ranks that hold the same parameters.
  [[nodiscard]] const Group& replicas() const {
    return options_.kind.expert ? groups_.expert_dp : groups_.dp;
  }
  at::Tensor Open(size_t place) override;
  void CountReady(size_t place) override;
  void StartReduction(Bucket* bucket);
  // Whether gradients are whole only from their first contribution to their reduction.
  [[nodiscard]] bool scatters() const { return options_.shard && options_.shard_gradients; }
  [[nodiscard]] at::Tensor Shard(const at::Tensor& buffer, const Bucket& bucket) const;
  [[nodiscard]] at::Tensor GradShard(const Bucket& bucket) const;

  GradBufferOptions options_;
  const ParallelGroups& groups_;
  GradScatter* scatter_;
  std::vector<Bucket> buckets_;
  std::vector<Placement> placements_;
  std::vector<std::unique_ptr<GradAccumulator>> accumulators_;
  int64_t elements_ = 0;
  at::Tensor values_;
  at::Tensor gradients_;  // ZeRO 2: the shards of all buckets
  bool last_microbatch_ = false;
};

}  // namespace prism::launch
