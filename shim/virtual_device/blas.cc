// cuBLAS: handles with their modes. Its products and vector calls are in library_calls.txt; what is
// neither there nor here refuses by name (generated stubs).
#include <algorithm>
#include <iterator>

#pragma GCC visibility push(default)
#include <cublas_v2.h>
#pragma GCC visibility pop

#include "shim/virtual_device/blas_handle.h"
#include "shim/virtual_device/library_versions.h"

namespace prism::shim {

BlasHandle* FromHandle(cublasHandle_t handle) {
  return reinterpret_cast<BlasHandle*>(handle);
}

namespace {

struct Status {
  cublasStatus_t status;
  const char* name;
  const char* text;
};

#define PRISM_STATUS(status, text) {status, #status, text}
constexpr Status kStatuses[] = {
    PRISM_STATUS(CUBLAS_STATUS_SUCCESS, "success"),
    PRISM_STATUS(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized"),
    PRISM_STATUS(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed"),
    PRISM_STATUS(CUBLAS_STATUS_INVALID_VALUE,
                 "an unsupported value or parameter was passed to the function"),
    PRISM_STATUS(CUBLAS_STATUS_ARCH_MISMATCH,
                 "the function requires an architectural feature absent from the device"),
    PRISM_STATUS(CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory space failed"),
    PRISM_STATUS(CUBLAS_STATUS_EXECUTION_FAILED, "the function failed to launch on the GPU"),
    PRISM_STATUS(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed"),
    PRISM_STATUS(CUBLAS_STATUS_NOT_SUPPORTED, "the functionality requested is not supported"),
    PRISM_STATUS(CUBLAS_STATUS_LICENSE_ERROR, "the functionality requested requires some license"),
};
#undef PRISM_STATUS

const Status* FindStatus(cublasStatus_t status) {
  const auto* const found = std::ranges::find(kStatuses, status, &Status::status);
  return found == std::end(kStatuses) ? nullptr : found;
}

}  // namespace

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
  *version = BlasVersion();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = VersionPart(BlasVersion(), type);
  return CUBLAS_STATUS_SUCCESS;
}

// The program's own workspace is already counted by the allocator; nothing is written to it.
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* /*workspace*/, size_t /*bytes*/) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

// The pair of calls for a field of the handle.
#define PRISM_FIELD(set, get, Type, field)                 \
  cublasStatus_t set(cublasHandle_t handle, Type value) {  \
    if (handle == nullptr) {                               \
      return CUBLAS_STATUS_NOT_INITIALIZED;                \
    }                                                      \
    FromHandle(handle)->field = value;                     \
    return CUBLAS_STATUS_SUCCESS;                          \
  }                                                        \
  cublasStatus_t get(cublasHandle_t handle, Type* value) { \
    if (handle == nullptr || value == nullptr) {           \
      return CUBLAS_STATUS_NOT_INITIALIZED;                \
    }                                                      \
    *value = FromHandle(handle)->field;                    \
    return CUBLAS_STATUS_SUCCESS;                          \
  }

PRISM_FIELD(cublasSetStream, cublasGetStream, cudaStream_t, stream)
PRISM_FIELD(cublasSetMathMode, cublasGetMathMode, cublasMath_t, math_mode)
PRISM_FIELD(cublasSetPointerMode, cublasGetPointerMode, cublasPointerMode_t, pointer_mode)
PRISM_FIELD(cublasSetAtomicsMode, cublasGetAtomicsMode, cublasAtomicsMode_t, atomics_mode)
PRISM_FIELD(cublasSetSmCountTarget, cublasGetSmCountTarget, int, sm_count_target)
#undef PRISM_FIELD

const char* cublasGetStatusName(cublasStatus_t status) {
  const auto* const known = FindStatus(status);
  return known == nullptr ? "CUBLAS_STATUS_UNKNOWN" : known->name;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  const auto* const known = FindStatus(status);
  return known == nullptr ? "unknown error code" : known->text;
}

}  // extern "C"
}  // namespace prism::shim
