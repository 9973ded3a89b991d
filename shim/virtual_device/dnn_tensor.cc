#include "shim/virtual_device/dnn_tensor.h"

#include <algorithm>

namespace prism::shim {

TensorLayout* LayoutOf(cudnnTensorDescriptor_t descriptor) {
  return reinterpret_cast<TensorLayout*>(descriptor);
}

TensorLayout* LayoutOf(cudnnFilterDescriptor_t descriptor) {
  return reinterpret_cast<TensorLayout*>(descriptor);
}

namespace {

cudnnStatus_t SetDims(TensorLayout* layout, cudnnDataType_t type, int count, const int* dims) {
  if (layout == nullptr || dims == nullptr || count < 0 || count > CUDNN_DIM_MAX) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  layout->type = type;
  layout->count = count;
  std::copy_n(dims, count, layout->dims);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

PRISM_DNN_DESCRIPTOR(Tensor, TensorLayout)
PRISM_DNN_DESCRIPTOR(Filter, TensorLayout)

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor,
                                         cudnnDataType_t type,
                                         int count,
                                         const int dims[],
                                         const int strides[]) {
  const cudnnStatus_t status = SetDims(LayoutOf(descriptor), type, count, dims);
  if (status == CUDNN_STATUS_SUCCESS && strides != nullptr) {
    std::copy_n(strides, count, LayoutOf(descriptor)->strides);
  }
  return status;
}

cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t descriptor,
                                         int most,
                                         cudnnDataType_t* type,
                                         int* count,
                                         int dims[],
                                         int strides[]) {
  const auto& layout = *LayoutOf(descriptor);
  *type = layout.type;
  *count = layout.count;
  std::copy_n(layout.dims, std::min(most, layout.count), dims);
  std::copy_n(layout.strides, std::min(most, layout.count), strides);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t descriptor,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t format,
                                         int count,
                                         const int dims[]) {
  const cudnnStatus_t status = SetDims(LayoutOf(descriptor), type, count, dims);
  if (status == CUDNN_STATUS_SUCCESS) {
    LayoutOf(descriptor)->format = format;
  }
  return status;
}

cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t descriptor,
                                         int most,
                                         cudnnDataType_t* type,
                                         cudnnTensorFormat_t* format,
                                         int* count,
                                         int dims[]) {
  const auto& layout = *LayoutOf(descriptor);
  *type = layout.type;
  *format = layout.format;
  *count = layout.count;
  std::copy_n(layout.dims, std::min(most, layout.count), dims);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
}  // namespace prism::shim
