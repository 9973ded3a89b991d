// What an operation graph of cuDNN computes, for the cost rules: for attention, callers other than
// libtorch have no framework op with the shapes, and for a convolution, libtorch's own op does not
// have the output's shape.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/program/op.h"
#include "shim/virtual_device/dnn_descriptor.h"

namespace prism::shim {

struct DnnTensor {
  DataType dtype = DataType::kUnknown;
  std::vector<int64_t> dims;
};

// A framework op by name and inputs.
//
// cudnn::scaled_dot_product_attention[_backward], in the order of libtorch's own: forward q, k, v;
// backward the output's gradient first; each [batch, heads, sequence, head dimension].
//
// cudnn::convolution, cudnn::convolution_backward_input, cudnn::convolution_backward_weight: input
// [batch, channels, extent...], weight [output channels, channels of a group, extent...], output
// [batch, output channels, extent...], or their gradients. With ".channels_last" behind the name if
// they lie in memory in that order, then ".fp32" if products are not rounded to TF32.
struct DnnOperation {
  std::string op;
  std::vector<DnnTensor> inputs;
  bool replaces_framework_op = false;  // more specific than the framework's
};

// The first operation of the graph. Attention forward: one operation, or two products (q·kᵀ, p·v).
// Backward: one operation, or five products, of which the first is q·kᵀ again and one multiplies
// the output's gradient by vᵀ.
std::optional<DnnOperation> FindOperation(const DnnDescriptor& operation_graph);

// A convolution of fp32 by an engine that does not round its factors to TF32; null for others.
std::optional<DnnOperation> WithoutTf32(const DnnOperation& operation);

// The payload that defines it in channel::Table::kContext.
std::string EncodeContext(const DnnOperation& operation);

}  // namespace prism::shim
