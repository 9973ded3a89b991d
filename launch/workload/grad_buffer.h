// Flat storage of parameters of one kind: values in the compute type, gradients accumulated in
// float32 (Megatron's ParamAndGradBuffer), cut into buckets that data parallelism reduces one by
// one while the backward pass of the last micro-batch still runs.
//
// Kinds are kept apart so that a flat shard is uniform: every parameter of a buffer has the same
// weight decay and counts the same in the gradient norm, and padded buckets give every dp rank a
// shard of equal size. So all dp ranks of a stage run the same kernels, whatever parameters their
// shards cut. (Megatron keeps one buffer and walks over the pieces of parameters in a shard.)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "launch/workload/parallel_groups.h"

namespace prism::launch {

struct Parameter;
class GradBuffer;

// Where one parameter's gradients go: its part of the flat float32 buffer.
class GradAccumulator {
 public:
  GradAccumulator(GradBuffer* buffer, at::Tensor main_grad, size_t bucket);

  void Add(const at::Tensor& grad);

  // Adds outputᵀ · input, the gradient of a linear layer's weight, within the matrix product
  // (Megatron's gradient accumulation fusion). Both are matrices with one row a token.
  void AddProduct(const at::Tensor& output_grad, const at::Tensor& input);

  // The same for as many linear layers as the first dimension says.
  void AddProducts(const at::Tensor& output_grads, const at::Tensor& inputs);

 private:
  GradBuffer* buffer_;
  at::Tensor main_grad_;
  size_t bucket_;
};

struct GradBufferOptions {
  bool decay = true;
  bool sequence_parallel = false;  // gradients are partial sums over tp
  bool split = false;              // divided over tp; else all tp ranks hold the same values
  bool tied = false;               // reduced over the embedding group
  bool expert = false;             // replicas are those of experts
  bool shard = true;  // ZeRO 1: reduce-scatter and a shard of the optimizer; false for no replicas
  c10::ScalarType dtype = at::kBFloat16;
  at::Device device = at::kCPU;
};

class GradBuffer {
 public:
  // Lays out `parameters` in the given order (that of the backward pass) and sets their values to
  // views of the buffer. `groups` outlives the buffer.
  GradBuffer(const std::vector<Parameter*>& parameters,
             const GradBufferOptions& options,
             const ParallelGroups& groups);
  GradBuffer(const GradBuffer&) = delete;
  GradBuffer& operator=(const GradBuffer&) = delete;
  ~GradBuffer() = default;

  // Allocates the gradients, gives every parameter its accumulator, and hooks it into backward for
  // the gradients that autograd computes.
  void AllocateGradients();

  void ZeroGradients();

  // From now on a bucket's reduction starts as soon as all of its gradients are there.
  void BeginLastMicrobatch();

  // Waits for the reductions, then sums what other groups hold a part of: sequence-parallel
  // gradients over tp, those of tied embeddings over the embedding group.
  void FinishReduction();

  // Gathers the values that the optimizer of each dp rank has updated (ZeRO 1).
  void StartGather();
  void FinishGather();

  // Per bucket the part that this rank's optimizer owns: all of it with ZeRO 0.
  [[nodiscard]] std::vector<at::Tensor> ValueShards() const;
  [[nodiscard]] std::vector<at::Tensor> GradShards() const;

  // What a shard's squared norm counts in the sum over all ranks that have one.
  [[nodiscard]] double norm_weight() const;
  [[nodiscard]] const GradBufferOptions& options() const { return options_; }

 private:
  friend class GradAccumulator;

  struct Bucket {
    int64_t begin = 0;  // elements in the buffer
    int64_t end = 0;    // padding included
    int expected = 0;   // contributions of one micro-batch
    int ready = 0;      // of the last micro-batch, so far
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
    return options_.expert ? groups_.expert_dp : groups_.dp;
  }
  void CountReady(size_t bucket);
  void StartReduction(Bucket* bucket);
  [[nodiscard]] at::Tensor Shard(const at::Tensor& buffer, const Bucket& bucket) const;

  GradBufferOptions options_;
  const ParallelGroups& groups_;
  std::vector<Bucket> buckets_;
  std::vector<Placement> placements_;
  std::vector<std::unique_ptr<GradAccumulator>> accumulators_;
  int64_t elements_ = 0;
  at::Tensor values_;
  at::Tensor gradients_;
  bool last_microbatch_ = false;
};

}  // namespace prism::launch
