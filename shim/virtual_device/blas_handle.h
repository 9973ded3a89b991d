// A cuBLAS handle.
#pragma once

#include <cublas_v2.h>

namespace prism::shim {

struct BlasHandle {
  cudaStream_t stream = nullptr;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  int sm_count_target = 0;
};

BlasHandle* FromHandle(cublasHandle_t handle);

}  // namespace prism::shim
