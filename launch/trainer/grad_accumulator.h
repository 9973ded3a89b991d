// Where the gradient of one parameter goes in the backward pass: it is added to float32 storage
// that a GradSink provides.
#pragma once

#include <cstddef>

#include <ATen/ATen.h>

namespace prism::launch {

// Storage of the gradients of several parameters, by place.
class GradSink {
 public:
  virtual ~GradSink() = default;

  // Float32, of the parameter's shape: what the next contribution is added to.
  virtual at::Tensor Open(size_t place) = 0;

  // A contribution has been added.
  virtual void CountReady(size_t place) = 0;

 protected:
  GradSink() = default;
  GradSink(const GradSink&) = default;
  GradSink& operator=(const GradSink&) = default;
};

class GradAccumulator {
 public:
  // `sink` outlives the accumulator.
  GradAccumulator(GradSink* sink, size_t place) : sink_(sink), place_(place) {}

  // Makes `parameter`, a leaf, pass on the gradients that autograd computes for it. Outlives the
  // autograd graphs that `parameter` is in.
  void HookInto(const at::Tensor& parameter);

  void Add(const at::Tensor& grad);

  // Adds outputᵀ · input, the gradient of a linear layer's weight, within the matrix product
  // (Megatron's gradient accumulation fusion). Both are matrices with one row per token.
  void AddProduct(const at::Tensor& output_grad, const at::Tensor& input);

  // The same for as many linear layers as the first dimension says.
  void AddProducts(const at::Tensor& output_grads, const at::Tensor& inputs);

 private:
  GradSink* sink_;
  size_t place_;
};

}  // namespace prism::launch
