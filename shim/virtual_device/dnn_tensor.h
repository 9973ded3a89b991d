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

TensorLayout* LayoutOf(cudnnTensorDescriptor_t descriptor);
TensorLayout* LayoutOf(cudnnFilterDescriptor_t descriptor);

}  // namespace prism::shim

// cudnnCreate...Descriptor and cudnnDestroy...Descriptor: an Object behind the library's handle.
#define PRISM_DNN_DESCRIPTOR(name, Object)                                             \
  cudnnStatus_t cudnnCreate##name##Descriptor(cudnn##name##Descriptor_t* descriptor) { \
    if (descriptor == nullptr) {                                                       \
      return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;                                      \
    }                                                                                  \
    *descriptor = reinterpret_cast<cudnn##name##Descriptor_t>(new Object());           \
    return CUDNN_STATUS_SUCCESS;                                                       \
  }                                                                                    \
  cudnnStatus_t cudnnDestroy##name##Descriptor(cudnn##name##Descriptor_t descriptor) { \
    delete reinterpret_cast<Object*>(descriptor);                                      \
    return CUDNN_STATUS_SUCCESS;                                                       \
  }
