#include "shim/virtual_device/dnn_operation.h"

#include <array>
#include <string_view>
#include <utility>

#include "shim/channel/messages.h"

namespace prism::shim {
namespace {

constexpr size_t kDimensions = 4;
constexpr std::string_view kChannelsLast = ".channels_last";

DataType DataTypeOf(int32_t type) {
  switch (type) {
    case CUDNN_DATA_HALF:
      return DataType::kFloat16;
    case CUDNN_DATA_BFLOAT16:
      return DataType::kBfloat16;
    case CUDNN_DATA_FLOAT:
      return DataType::kFloat32;
    case CUDNN_DATA_FP8_E4M3:
    case CUDNN_DATA_FP8_E5M2:
      return DataType::kFloat8;
    default:
      return DataType::kUnknown;
  }
}

// The tensor that an operation names; without dimensions if it names none.
DnnTensor TensorOf(const DnnDescriptor& operation, cudnnBackendAttributeName_t name) {
  const auto tensors = operation.Descriptors(name);
  if (tensors.empty() || tensors[0] == nullptr) {
    return {};
  }
  const auto types = tensors[0]->Elements<int32_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  return {types.empty() ? DataType::kUnknown : DataTypeOf(types[0]),
          tensors[0]->Elements<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)};
}

DnnTensor Transposed(DnnTensor tensor) {
  if (tensor.dims.size() == kDimensions) {
    std::swap(tensor.dims[2], tensor.dims[3]);
  }
  return tensor;
}

std::optional<DnnOperation> FromProducts(const std::vector<const DnnDescriptor*>& products) {
  constexpr size_t kForward = 2;
  constexpr size_t kBackward = 5;
  if (products.size() != kForward && products.size() != kBackward) {
    return std::nullopt;
  }
  const DnnTensor q = TensorOf(*products[0], CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const DnnTensor k = Transposed(TensorOf(*products[0], CUDNN_ATTR_OPERATION_MATMUL_BDESC));
  if (q.dims.size() != kDimensions || k.dims.size() != kDimensions) {
    return std::nullopt;
  }
  if (products.size() == kForward) {
    return DnnOperation{"cudnn::scaled_dot_product_attention",
                        {q, k, TensorOf(*products[1], CUDNN_ATTR_OPERATION_MATMUL_BDESC)}};
  }
  // The gradient has the queries' length and the values' head dimension, as the output does.
  DnnTensor gradient = q;
  return DnnOperation{"cudnn::scaled_dot_product_attention_backward", {gradient, q, k, k}};
}

// Whether the channels of a place are beside each other.
bool IsChannelsLast(const DnnDescriptor& operation, cudnnBackendAttributeName_t name) {
  const auto tensors = operation.Descriptors(name);
  if (tensors.empty() || tensors[0] == nullptr) {
    return false;
  }
  const auto dims = tensors[0]->Elements<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = tensors[0]->Elements<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  return dims.size() > 1 && strides.size() == dims.size() && dims[1] > 1 && strides[1] == 1;
}

DnnOperation Convolution(std::string op,
                         const DnnDescriptor& operation,
                         const std::array<cudnnBackendAttributeName_t, 3>& tensors) {
  if (IsChannelsLast(operation, tensors[0]) || IsChannelsLast(operation, tensors[2])) {
    op += kChannelsLast;
  }
  DnnOperation found = {std::move(op), {}, true};
  for (const cudnnBackendAttributeName_t name : tensors) {
    found.inputs.push_back(TensorOf(operation, name));
  }
  return found;
}

}  // namespace

std::optional<DnnOperation> FindOperation(const DnnDescriptor& operation_graph) {
  std::vector<const DnnDescriptor*> products;
  for (const DnnDescriptor* operation :
       operation_graph.Descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    switch (operation->type) {
      case CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR:
        return DnnOperation{"cudnn::scaled_dot_product_attention",
                            {TensorOf(*operation, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC),
                             TensorOf(*operation, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC),
                             TensorOf(*operation, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC)}};
      case CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR:
        return DnnOperation{"cudnn::scaled_dot_product_attention_backward",
                            {TensorOf(*operation, CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC),
                             TensorOf(*operation, CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC),
                             TensorOf(*operation, CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC),
                             TensorOf(*operation, CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC)}};
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return Convolution(
            "cudnn::convolution", *operation,
            {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y});
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
        return Convolution("cudnn::convolution_backward_input", *operation,
                           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY});
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
        return Convolution("cudnn::convolution_backward_weight", *operation,
                           {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY});
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        products.push_back(operation);
        break;
      default:
        break;
    }
  }
  return FromProducts(products);
}

std::optional<DnnOperation> WithoutTf32(const DnnOperation& operation) {
  if (!operation.op.starts_with("cudnn::convolution") ||
      operation.inputs[1].dtype != DataType::kFloat32) {
    return std::nullopt;
  }
  DnnOperation exact = operation;
  exact.op += ".fp32";
  return exact;
}

std::string EncodeContext(const DnnOperation& operation) {
  const channel::ContextHeader header = {static_cast<uint16_t>(operation.op.size()),
                                         static_cast<uint16_t>(operation.inputs.size())};
  std::string payload(sizeof(header), '\0');
  std::memcpy(payload.data(), &header, sizeof(header));
  payload += operation.op;
  for (const DnnTensor& tensor : operation.inputs) {
    payload.push_back(static_cast<char>(tensor.dtype));
    payload.push_back(static_cast<char>(tensor.dims.size()));
    payload.append(reinterpret_cast<const char*>(tensor.dims.data()),
                   tensor.dims.size() * sizeof(int64_t));
  }
  return payload;
}

}  // namespace prism::shim
