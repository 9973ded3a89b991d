// Activation recomputation: keep only the inputs of a piece of the model and run it again in the
// backward pass.
#pragma once

#include <vector>

#include <ATen/ATen.h>

namespace prism::launch {

// A piece that can be run again. Outlives the autograd graphs that refer to it.
class Recomputable {
 public:
  virtual ~Recomputable() = default;

  [[nodiscard]] virtual at::Tensor Compute(const std::vector<at::Tensor>& inputs) const = 0;

 protected:
  Recomputable() = default;
  Recomputable(const Recomputable&) = default;
  Recomputable& operator=(const Recomputable&) = default;
};

// piece.Compute(inputs), saving no activations except the inputs.
at::Tensor Checkpoint(const Recomputable& piece, const std::vector<at::Tensor>& inputs);

}  // namespace prism::launch
