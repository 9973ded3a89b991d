// cuBLAS and cuBLASLt: products and vector calls with their shapes, on the stream set in the
// program's handle.
#include "shim/gpu/forward.h"

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

PRISM_CREATE(cublasCreate_v2);
PRISM_DESTROY(cublasDestroy_v2);
PRISM_RECORD(cublasSetStream_v2);

PRISM_RECORD(cublasSgemm_v2);
PRISM_RECORD(cublasSgemmBatched);
PRISM_RECORD(cublasSgemmStridedBatched);
PRISM_RECORD(cublasDgemm_v2);
PRISM_RECORD(cublasDgemmBatched);
PRISM_RECORD(cublasDgemmStridedBatched);
PRISM_RECORD(cublasCgemm_v2);
PRISM_RECORD(cublasCgemmBatched);
PRISM_RECORD(cublasCgemmStridedBatched);
PRISM_RECORD(cublasZgemm_v2);
PRISM_RECORD(cublasZgemmBatched);
PRISM_RECORD(cublasZgemmStridedBatched);
PRISM_RECORD(cublasHgemm);
PRISM_RECORD(cublasHgemmBatched);
PRISM_RECORD(cublasHgemmStridedBatched);
PRISM_RECORD(cublasSgemmEx);
PRISM_RECORD_AS(cublasGemmEx, prism::shim::GemmEx);
PRISM_RECORD_AS(cublasGemmBatchedEx, prism::shim::GemmBatchedEx);
PRISM_RECORD_AS(cublasGemmStridedBatchedEx, prism::shim::GemmStridedBatchedEx);
PRISM_RECORD(cublasSgemv_v2);
PRISM_RECORD(cublasDgemv_v2);
PRISM_RECORD(cublasSger_v2);
PRISM_RECORD(cublasDger_v2);
PRISM_RECORD(cublasSasum_v2);
PRISM_RECORD(cublasDasum_v2);
PRISM_RECORD(cublasSaxpy_v2);
PRISM_RECORD(cublasDaxpy_v2);
PRISM_RECORD(cublasScopy_v2);
PRISM_RECORD(cublasDcopy_v2);
PRISM_RECORD(cublasSdot_v2);
PRISM_RECORD(cublasDdot_v2);
PRISM_RECORD(cublasDotEx);
PRISM_RECORD(cublasSnrm2_v2);
PRISM_RECORD(cublasDnrm2_v2);
PRISM_RECORD(cublasSscal_v2);
PRISM_RECORD(cublasDscal_v2);

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
