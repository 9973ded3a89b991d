// A cuBLAS handle and the records that its calls emit.
#pragma once

#include <cstddef>

#include <cublas_v2.h>

#include "shim/virtual_device/blas_record.h"

namespace prism::shim {

struct BlasHandle {
  cudaStream_t stream = nullptr;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  int sm_count_target = 0;
};

BlasHandle* FromHandle(cublasHandle_t handle);

// One product on the handle's stream.
cublasStatus_t Multiply(cublasHandle_t handle, const Product& product);

// One vector call on the handle's stream.
cublasStatus_t Run(cublasHandle_t handle, const char* name);

// A vector call that reduces to a scalar. In host pointer mode the caller reads the result at once:
// it is zero, like everything that a kernel would have computed, and that is counted.
cublasStatus_t RunScalar(cublasHandle_t handle, const char* name, void* result, size_t bytes);

size_t ScalarBytes(cudaDataType type);

}  // namespace prism::shim
