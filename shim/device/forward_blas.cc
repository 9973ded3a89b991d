// cuBLAS and cuBLASLt: products and vector calls with their shapes, on the stream set in the
// program's handle.
#include "shim/device/forward.h"

namespace prism::shim {

// The header also has a C++ overload of each name.
using GemmEx = cublasStatus_t(cublasHandle_t handle,
                              cublasOperation_t transa,
                              cublasOperation_t transb,
                              int m,
                              int n,
                              int k,
                              const void* alpha,
                              const void* A,
                              cudaDataType Atype,
                              int lda,
                              const void* B,
                              cudaDataType Btype,
                              int ldb,
                              const void* beta,
                              void* C,
                              cudaDataType Ctype,
                              int ldc,
                              cublasComputeType_t computeType,
                              cublasGemmAlgo_t algo);
using GemmBatchedEx = cublasStatus_t(cublasHandle_t handle,
                                     cublasOperation_t transa,
                                     cublasOperation_t transb,
                                     int m,
                                     int n,
                                     int k,
                                     const void* alpha,
                                     const void* const Aarray[],
                                     cudaDataType Atype,
                                     int lda,
                                     const void* const Barray[],
                                     cudaDataType Btype,
                                     int ldb,
                                     const void* beta,
                                     void* const Carray[],
                                     cudaDataType Ctype,
                                     int ldc,
                                     int batchCount,
                                     cublasComputeType_t computeType,
                                     cublasGemmAlgo_t algo);
using GemmStridedBatchedEx = cublasStatus_t(cublasHandle_t handle,
                                            cublasOperation_t transa,
                                            cublasOperation_t transb,
                                            int m,
                                            int n,
                                            int k,
                                            const void* alpha,
                                            const void* A,
                                            cudaDataType Atype,
                                            int lda,
                                            long long int strideA,
                                            const void* B,
                                            cudaDataType Btype,
                                            int ldb,
                                            long long int strideB,
                                            const void* beta,
                                            void* C,
                                            cudaDataType Ctype,
                                            int ldc,
                                            long long int strideC,
                                            int batchCount,
                                            cublasComputeType_t computeType,
                                            cublasGemmAlgo_t algo);

}  // namespace prism::shim

PRISM_MADE(cublasCreate_v2);
PRISM_ENDED(cublasDestroy_v2);
PRISM_TOLD(cublasSetStream_v2);

PRISM_TOLD(cublasSgemm_v2);
PRISM_TOLD(cublasSgemmBatched);
PRISM_TOLD(cublasSgemmStridedBatched);
PRISM_TOLD(cublasDgemm_v2);
PRISM_TOLD(cublasDgemmBatched);
PRISM_TOLD(cublasDgemmStridedBatched);
PRISM_TOLD(cublasCgemm_v2);
PRISM_TOLD(cublasCgemmBatched);
PRISM_TOLD(cublasCgemmStridedBatched);
PRISM_TOLD(cublasZgemm_v2);
PRISM_TOLD(cublasZgemmBatched);
PRISM_TOLD(cublasZgemmStridedBatched);
PRISM_TOLD(cublasHgemm);
PRISM_TOLD(cublasHgemmBatched);
PRISM_TOLD(cublasHgemmStridedBatched);
PRISM_TOLD(cublasSgemmEx);
PRISM_TOLD_AS(cublasGemmEx, prism::shim::GemmEx);
PRISM_TOLD_AS(cublasGemmBatchedEx, prism::shim::GemmBatchedEx);
PRISM_TOLD_AS(cublasGemmStridedBatchedEx, prism::shim::GemmStridedBatchedEx);
PRISM_TOLD(cublasSgemv_v2);
PRISM_TOLD(cublasDgemv_v2);
PRISM_TOLD(cublasSger_v2);
PRISM_TOLD(cublasDger_v2);
PRISM_TOLD(cublasSasum_v2);
PRISM_TOLD(cublasDasum_v2);
PRISM_TOLD(cublasSaxpy_v2);
PRISM_TOLD(cublasDaxpy_v2);
PRISM_TOLD(cublasScopy_v2);
PRISM_TOLD(cublasDcopy_v2);
PRISM_TOLD(cublasSdot_v2);
PRISM_TOLD(cublasDdot_v2);
PRISM_TOLD(cublasDotEx);
PRISM_TOLD(cublasSnrm2_v2);
PRISM_TOLD(cublasDnrm2_v2);
PRISM_TOLD(cublasSscal_v2);
PRISM_TOLD(cublasDscal_v2);

PRISM_MADE(cublasLtMatmulDescCreate);
PRISM_ENDED(cublasLtMatmulDescDestroy);
PRISM_TOLD(cublasLtMatmulDescSetAttribute);
PRISM_MADE(cublasLtMatrixLayoutCreate);
PRISM_ENDED(cublasLtMatrixLayoutDestroy);
PRISM_TOLD(cublasLtMatrixLayoutSetAttribute);
PRISM_TOLD(cublasLtMatmul);

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

PRISM_SEEN(cublasLtMatmulDescInit_internal, prism::shim::InitMatmulDesc);
PRISM_SEEN(cublasLtMatrixLayoutInit_internal, prism::shim::InitMatrixLayout);
