// A convolution as a product of matrices: outputs at all positions by channels, over the channels
// and positions that a filter covers. cuDNN's kernels compute it this way without storing the
// operands (implicit product), so the bytes are those of the tensors.
#pragma once

#include <optional>

#include "graph/program/signature.h"
#include "replayer/cost/kernel_rules.h"

namespace prism::replayer {

struct Convolution {
  graph::MatmulShape product;  // `batch` times, once per group
  double bytes = 0;            // of input, weight and output, each once
  bool narrow = false;         // too few channels per group for matrix units (depthwise)
  bool tf32 = true;            // products of fp32 may be rounded to it
  bool channels_last = false;  // as matrix units want them: else tensors are transposed before and
                               // after
};

// For an op "cudnn::convolution...[.channels_last][.fp32]", whose inputs are input, weight and
// output or their gradients (shim/virtual_device/dnn_operation.h); null for other ops and for
// shapes that do not fit together.
std::optional<Convolution> FindConvolution(const KernelView& view);

}  // namespace prism::replayer
