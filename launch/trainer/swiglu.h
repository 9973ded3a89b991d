// The activation of Llama's feed-forward layers and experts.
#pragma once

#include <ATen/ATen.h>

namespace prism::launch {

// silu(gate) · up of [.., 2 * width], the gate first. Keeps only its input for the backward pass,
// as Megatron's fused kernel does.
at::Tensor SwiGlu(const at::Tensor& input);

}  // namespace prism::launch
