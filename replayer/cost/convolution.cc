#include "replayer/cost/convolution.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace prism::replayer {
namespace {

// Matrix units take eight elements of 16 bits at once; a group of fewer channels does not use them.
constexpr int64_t kFewestChannels = 8;

// Positions of a tensor [batch or channels, channels, extent...].
int64_t Places(const graph::TensorShape& tensor) {
  return std::accumulate(tensor.dims.begin() + 2, tensor.dims.end(), int64_t{1},
                         std::multiplies<>());
}

}  // namespace

std::optional<Convolution> FindConvolution(const KernelView& view) {
  const std::vector<graph::TensorShape>& inputs = view.signature.inputs;
  if (!view.framework_op.starts_with("cudnn::convolution") || inputs.size() != 3 ||
      std::ranges::any_of(inputs, [](const auto& tensor) { return tensor.dims.size() < 3; })) {
    return std::nullopt;
  }
  const graph::TensorShape& input = inputs[0];
  const graph::TensorShape& weight = inputs[1];
  const graph::TensorShape& output = inputs[2];
  const int64_t channels = weight.dims[1];  // of a group
  if (channels <= 0 || input.dims[1] % channels != 0) {
    return std::nullopt;
  }
  const int64_t groups = std::max<int64_t>(1, input.dims[1] / channels);
  const int64_t filters = weight.dims[0] / groups;  // of a group
  const int64_t seen = channels * Places(weight);
  const int64_t places = output.dims[0] * Places(output);
  Convolution found;
  found.channels_last = Contains(view.framework_op, ".channels_last");
  found.tf32 = !Contains(view.framework_op, ".fp32");
  found.narrow = std::min(channels, filters) < kFewestChannels && groups > 1;
  for (const graph::TensorShape& tensor : inputs) {
    found.bytes += static_cast<double>(tensor.Bytes());
  }
  // Rows and columns count the elements that a kernel's tiles cover; the number of products is the
  // same in all three directions.
  graph::MatmulShape& product = found.product;
  product.batch = groups;
  product.input = product.output = weight.dtype;
  if (Contains(view.framework_op, "_weight")) {
    product.m = filters;
    product.n = seen;
    product.k = places;
  } else if (Contains(view.framework_op, "_input")) {
    product.m = places;
    product.n = channels;
    product.k = filters * Places(weight);
  } else {
    product.m = places;
    product.n = filters;
    product.k = seen;
  }
  return found;
}

}  // namespace prism::replayer
