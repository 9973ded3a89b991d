// A convolution as a product of matrices: outputs at all places by channels, over the channels and
// places that a filter sees. cuDNN's kernels compute it so without storing the operands (implicit
// product), so that bytes are those of the tensors.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/signature.h"
#include "replayer/cost/kernel_rules.h"

namespace prism::replayer {

struct Convolution {
  graph::MatmulShape product;  // `batch` times, once a group
  double bytes = 0;            // of input, weight and output, each once
  bool narrow = false;         // too few channels a group for matrix units (depthwise)
};

// Of an op "cudnn::convolution...", whose inputs are input, weight and output or their gradients
// (shim/cuda/dnn_operation.h); nothing for other ops and for shapes that do not fit each other.
std::optional<Convolution> FindConvolution(const KernelView& view);

}  // namespace prism::replayer
