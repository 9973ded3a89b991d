// The contents of a tensor or filter descriptor of cuDNN, and how to create one.
#pragma once

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop

namespace prism::shim {

// A tensor, or a filter, whose strides are not used.
struct TensorLayout {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int count = 0;
  int dims[CUDNN_DIM_MAX] = {};
  int strides[CUDNN_DIM_MAX] = {};
};

// Answers cudnnCreate...Descriptor: an Object behind the library's handle.
template <typename Object, typename Handle>
cudnnStatus_t MakeDescriptor(Handle* handle) {
  if (handle == nullptr) {
    return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  }
  *handle = reinterpret_cast<Handle>(new Object());
  return CUDNN_STATUS_SUCCESS;
}

TensorLayout* LayoutOf(cudnnTensorDescriptor_t descriptor);
TensorLayout* LayoutOf(cudnnFilterDescriptor_t descriptor);

}  // namespace prism::shim
