// What a tensor or filter descriptor of cuDNN holds.
#pragma once

#pragma GCC visibility push(default)
#include <cudnn.h>
#pragma GCC visibility pop

namespace prism::shim {

// A tensor, or a filter, of which strides are not asked.
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
