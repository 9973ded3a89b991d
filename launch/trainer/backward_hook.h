// A callback in the backward pass at one point of the autograd graph.
#pragma once

#include <functional>

#include <ATen/ATen.h>

namespace prism::launch {

// Returns `tensor`; `callback` is called in backward before anything that computes the gradient of
// the inputs of `tensor`. `callback` outlives the autograd graph.
at::Tensor AtBackward(const at::Tensor& tensor, const std::function<void()>* callback);

}  // namespace prism::launch
