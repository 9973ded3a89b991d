// cuBLAS: handles with their modes, and the products and vector calls that training makes. Products
// become kMatmul records, vector calls kKernel records; result memory is left unchanged, as with
// every kernel of the virtual device. Calls that are not here refuse by name (generated stubs).
#include <cstddef>

#pragma GCC visibility push(default)
#include <cublas_v2.h>
#pragma GCC visibility pop

#include "shim/session.h"
#include "shim/virtual_device/blas_handle.h"
#include "shim/virtual_device/memory.h"

namespace prism::shim {

BlasHandle* FromHandle(cublasHandle_t handle) {
  return reinterpret_cast<BlasHandle*>(handle);
}

cublasStatus_t Multiply(cublasHandle_t handle, const Product& product) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (product.m < 0 || product.n < 0 || product.k < 0 || product.batch < 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // The value has flags in addition to the mode.
  Product allowed = product;
  allowed.tf32 = product.tf32 || (FromHandle(handle)->math_mode & CUBLAS_TF32_TENSOR_OP_MATH) ==
                                     CUBLAS_TF32_TENSOR_OP_MATH;
  EmitProduct(allowed, FromHandle(handle)->stream);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Run(cublasHandle_t handle, const char* name) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  EmitLibraryCall(name, FromHandle(handle)->stream);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t RunScalar(cublasHandle_t handle, const char* name, void* result, size_t bytes) {
  const cublasStatus_t status = Run(handle, name);
  if (status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if (FromHandle(handle)->pointer_mode == CUBLAS_POINTER_MODE_HOST) {
    SetBytes(result, 0, bytes);
    Count("blas_scalar_results_zero");
  }
  return status;
}

size_t ScalarBytes(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_64F:
    case CUDA_C_32F:
      return 8;
    case CUDA_C_64F:
      return 16;
    default:
      return 4;
  }
}

}  // namespace prism::shim

using prism::shim::BlasHandle;
using prism::shim::FromHandle;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *handle = reinterpret_cast<cublasHandle_t>(new BlasHandle());
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete FromHandle(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t /*handle*/, int* version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  const int values[] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
  *value = values[type];
  return CUBLAS_STATUS_SUCCESS;
}

// The program's own workspace is already counted by the allocator; nothing is written to it.
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* /*workspace*/, size_t /*bytes*/) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t value) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  FromHandle(handle)->stream = value;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* value) {
  if (handle == nullptr || value == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  *value = FromHandle(handle)->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t value) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  FromHandle(handle)->math_mode = value;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* value) {
  if (handle == nullptr || value == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  *value = FromHandle(handle)->math_mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t value) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  FromHandle(handle)->pointer_mode = value;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* value) {
  if (handle == nullptr || value == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  *value = FromHandle(handle)->pointer_mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t value) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  FromHandle(handle)->atomics_mode = value;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* value) {
  if (handle == nullptr || value == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  *value = FromHandle(handle)->atomics_mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int value) {
  if (handle == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  FromHandle(handle)->sm_count_target = value;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* value) {
  if (handle == nullptr || value == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  *value = FromHandle(handle)->sm_count_target;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "CUBLAS_STATUS_LICENSE_ERROR";
    default:
      return "CUBLAS_STATUS_UNKNOWN";
  }
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "the function requires an architectural feature absent from the device";
    case CUBLAS_STATUS_MAPPING_ERROR:
      return "an access to GPU memory space failed";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
    case CUBLAS_STATUS_LICENSE_ERROR:
      return "the functionality requested requires some license";
    default:
      return "unknown error code";
  }
}

}  // extern "C"
