// A call in the backward pass at a place of the autograd graph.
#pragma once

#include <functional>

#include <ATen/ATen.h>

namespace prism::launch {

// `tensor` itself; `callback` is called in backward before anything that computes the gradient of
// what `tensor` was made from. `callback` outlives the autograd graph.
at::Tensor AtBackward(const at::Tensor& tensor, const std::function<void()>* callback);

}  // namespace prism::launch
