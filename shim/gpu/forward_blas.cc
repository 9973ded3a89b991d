// cuBLASLt: descriptors and products with their shapes. cuBLAS is in library_calls.txt.
#include "shim/gpu/forward.h"

PRISM_CREATE(cublasLtMatmulDescCreate);
PRISM_DESTROY(cublasLtMatmulDescDestroy);
PRISM_RECORD(cublasLtMatmulDescSetAttribute);
PRISM_CREATE(cublasLtMatrixLayoutCreate);
PRISM_DESTROY(cublasLtMatrixLayoutDestroy);
PRISM_RECORD(cublasLtMatrixLayoutSetAttribute);
PRISM_RECORD(cublasLtMatmul);

PRISM_CALL(cublasLtMatmulDescInit_internal);
PRISM_CALL(cublasLtMatrixLayoutInit_internal);

namespace prism::shim {
namespace {

// A descriptor in the program's own memory is never destroyed: the next one there takes over its
// twin.
template <typename Descriptor>
Descriptor TwinInPlace(Descriptor real) {
  auto* twin = static_cast<Descriptor>(FindTwin(real));
  if (twin == nullptr) {
    twin = new std::remove_pointer_t<Descriptor>();
    PairHandles(real, twin);
  }
  return twin;
}

cublasStatus_t InitMatmulDesc(cublasLtMatmulDesc_t description,
                              size_t size,
                              cublasComputeType_t compute,
                              cudaDataType_t scale) {
  if (!WithinReal::Is() && description != nullptr) {
    prism_twin_cublasLtMatmulDescInit_internal(TwinInPlace(description), size, compute, scale);
  }
  return PRISM_REAL(cublasLtMatmulDescInit_internal)(description, size, compute, scale);
}

cublasStatus_t InitMatrixLayout(cublasLtMatrixLayout_t layout,
                                size_t size,
                                cudaDataType type,
                                uint64_t rows,
                                uint64_t cols,
                                int64_t leading) {
  if (!WithinReal::Is() && layout != nullptr) {
    prism_twin_cublasLtMatrixLayoutInit_internal(TwinInPlace(layout), size, type, rows, cols,
                                                 leading);
  }
  return PRISM_REAL(cublasLtMatrixLayoutInit_internal)(layout, size, type, rows, cols, leading);
}

}  // namespace
}  // namespace prism::shim

PRISM_INTERCEPT(cublasLtMatmulDescInit_internal, prism::shim::InitMatmulDesc);
PRISM_INTERCEPT(cublasLtMatrixLayoutInit_internal, prism::shim::InitMatrixLayout);
