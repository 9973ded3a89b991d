// Finds attention in an operation graph of cuDNN: callers other than libtorch have no framework op
// that would tell a cost rule the shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/op.h"
#include "shim/cuda/dnn_descriptor.h"

namespace prism::shim {

struct DnnTensor {
  graph::DataType dtype = graph::DataType::kUnknown;
  std::vector<int64_t> dims;
};

// A framework op by name and inputs, in the order of libtorch's own: forward q, k, v; backward the
// output's gradient first; each [batch, heads, sequence, head dimension].
struct DnnAttention {
  std::string op;
  std::vector<DnnTensor> inputs;
};

// Forward: one operation, or two products (q·kᵀ, p·v). Backward: one operation, or five products,
// of which the first is q·kᵀ again and one takes the output's gradient with vᵀ.
std::optional<DnnAttention> FindAttention(const DnnDescriptor& operation_graph);

// The payload that defines it in channel::Table::kContext.
std::string EncodeContext(const DnnAttention& attention);

}  // namespace prism::shim
