// Matrix products of cuBLAS: each call emits one kMatmul record with its shape.
#pragma GCC visibility push(default)
#include <cublas_v2.h>
#pragma GCC visibility pop

#include "shim/cuda/blas_handle.h"

namespace prism::shim {
namespace {

// Types and sizes that the calls of one precision share.
Product Shape(const char* name,
              cublasOperation_t transa,
              cublasOperation_t transb,
              cudaDataType type) {
  Product product = {};
  product.name = name;
  product.batch = 1;
  product.input = type;
  product.output = type;
  product.transpose_a = transa != CUBLAS_OP_N;
  product.transpose_b = transb != CUBLAS_OP_N;
  return product;
}

Product Sized(Product product, int m, int n, int k, int batch) {
  product.m = m;
  product.n = n;
  product.k = k;
  product.batch = batch;
  return product;
}

}  // namespace
}  // namespace prism::shim

using prism::shim::Multiply;
using prism::shim::Shape;
using prism::shim::Sized;

extern "C" {

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle,
                              cublasOperation_t transa,
                              cublasOperation_t transb,
                              int m,
                              int n,
                              int k,
                              const float* /*alpha*/,
                              const float* /*A*/,
                              int /*lda*/,
                              const float* /*B*/,
                              int /*ldb*/,
                              const float* /*beta*/,
                              float* /*C*/,
                              int /*ldc*/) {
  return Multiply(handle, Sized(Shape("cublasSgemm", transa, transb, CUDA_R_32F), m, n, k, 1));
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle,
                                         cublasOperation_t transa,
                                         cublasOperation_t transb,
                                         int m,
                                         int n,
                                         int k,
                                         const float* /*alpha*/,
                                         const float* /*A*/,
                                         int /*lda*/,
                                         long long int /*strideA*/,
                                         const float* /*B*/,
                                         int /*ldb*/,
                                         long long int /*strideB*/,
                                         const float* /*beta*/,
                                         float* /*C*/,
                                         int /*ldc*/,
                                         long long int /*strideC*/,
                                         int batch) {
  return Multiply(handle, Sized(Shape("cublasSgemmStridedBatched", transa, transb, CUDA_R_32F), m,
                                n, k, batch));
}

cublasStatus_t cublasSgemmBatched(cublasHandle_t handle,
                                  cublasOperation_t transa,
                                  cublasOperation_t transb,
                                  int m,
                                  int n,
                                  int k,
                                  const float* /*alpha*/,
                                  const float* const /*A*/[],
                                  int /*lda*/,
                                  const float* const /*B*/[],
                                  int /*ldb*/,
                                  const float* /*beta*/,
                                  float* const /*C*/[],
                                  int /*ldc*/,
                                  int batch) {
  return Multiply(handle,
                  Sized(Shape("cublasSgemmBatched", transa, transb, CUDA_R_32F), m, n, k, batch));
}

cublasStatus_t cublasDgemm_v2(cublasHandle_t handle,
                              cublasOperation_t transa,
                              cublasOperation_t transb,
                              int m,
                              int n,
                              int k,
                              const double* /*alpha*/,
                              const double* /*A*/,
                              int /*lda*/,
                              const double* /*B*/,
                              int /*ldb*/,
                              const double* /*beta*/,
                              double* /*C*/,
                              int /*ldc*/) {
  return Multiply(handle, Sized(Shape("cublasDgemm", transa, transb, CUDA_R_64F), m, n, k, 1));
}

cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle,
                                         cublasOperation_t transa,
                                         cublasOperation_t transb,
                                         int m,
                                         int n,
                                         int k,
                                         const double* /*alpha*/,
                                         const double* /*A*/,
                                         int /*lda*/,
                                         long long int /*strideA*/,
                                         const double* /*B*/,
                                         int /*ldb*/,
                                         long long int /*strideB*/,
                                         const double* /*beta*/,
                                         double* /*C*/,
                                         int /*ldc*/,
                                         long long int /*strideC*/,
                                         int batch) {
  return Multiply(handle, Sized(Shape("cublasDgemmStridedBatched", transa, transb, CUDA_R_64F), m,
                                n, k, batch));
}

cublasStatus_t cublasDgemmBatched(cublasHandle_t handle,
                                  cublasOperation_t transa,
                                  cublasOperation_t transb,
                                  int m,
                                  int n,
                                  int k,
                                  const double* /*alpha*/,
                                  const double* const /*A*/[],
                                  int /*lda*/,
                                  const double* const /*B*/[],
                                  int /*ldb*/,
                                  const double* /*beta*/,
                                  double* const /*C*/[],
                                  int /*ldc*/,
                                  int batch) {
  return Multiply(handle,
                  Sized(Shape("cublasDgemmBatched", transa, transb, CUDA_R_64F), m, n, k, batch));
}

cublasStatus_t cublasCgemm_v2(cublasHandle_t handle,
                              cublasOperation_t transa,
                              cublasOperation_t transb,
                              int m,
                              int n,
                              int k,
                              const cuComplex* /*alpha*/,
                              const cuComplex* /*A*/,
                              int /*lda*/,
                              const cuComplex* /*B*/,
                              int /*ldb*/,
                              const cuComplex* /*beta*/,
                              cuComplex* /*C*/,
                              int /*ldc*/) {
  return Multiply(handle, Sized(Shape("cublasCgemm", transa, transb, CUDA_C_32F), m, n, k, 1));
}

cublasStatus_t cublasCgemmStridedBatched(cublasHandle_t handle,
                                         cublasOperation_t transa,
                                         cublasOperation_t transb,
                                         int m,
                                         int n,
                                         int k,
                                         const cuComplex* /*alpha*/,
                                         const cuComplex* /*A*/,
                                         int /*lda*/,
                                         long long int /*strideA*/,
                                         const cuComplex* /*B*/,
                                         int /*ldb*/,
                                         long long int /*strideB*/,
                                         const cuComplex* /*beta*/,
                                         cuComplex* /*C*/,
                                         int /*ldc*/,
                                         long long int /*strideC*/,
                                         int batch) {
  return Multiply(handle, Sized(Shape("cublasCgemmStridedBatched", transa, transb, CUDA_C_32F), m,
                                n, k, batch));
}

cublasStatus_t cublasCgemmBatched(cublasHandle_t handle,
                                  cublasOperation_t transa,
                                  cublasOperation_t transb,
                                  int m,
                                  int n,
                                  int k,
                                  const cuComplex* /*alpha*/,
                                  const cuComplex* const /*A*/[],
                                  int /*lda*/,
                                  const cuComplex* const /*B*/[],
                                  int /*ldb*/,
                                  const cuComplex* /*beta*/,
                                  cuComplex* const /*C*/[],
                                  int /*ldc*/,
                                  int batch) {
  return Multiply(handle,
                  Sized(Shape("cublasCgemmBatched", transa, transb, CUDA_C_32F), m, n, k, batch));
}

cublasStatus_t cublasZgemm_v2(cublasHandle_t handle,
                              cublasOperation_t transa,
                              cublasOperation_t transb,
                              int m,
                              int n,
                              int k,
                              const cuDoubleComplex* /*alpha*/,
                              const cuDoubleComplex* /*A*/,
                              int /*lda*/,
                              const cuDoubleComplex* /*B*/,
                              int /*ldb*/,
                              const cuDoubleComplex* /*beta*/,
                              cuDoubleComplex* /*C*/,
                              int /*ldc*/) {
  return Multiply(handle, Sized(Shape("cublasZgemm", transa, transb, CUDA_C_64F), m, n, k, 1));
}

cublasStatus_t cublasZgemmStridedBatched(cublasHandle_t handle,
                                         cublasOperation_t transa,
                                         cublasOperation_t transb,
                                         int m,
                                         int n,
                                         int k,
                                         const cuDoubleComplex* /*alpha*/,
                                         const cuDoubleComplex* /*A*/,
                                         int /*lda*/,
                                         long long int /*strideA*/,
                                         const cuDoubleComplex* /*B*/,
                                         int /*ldb*/,
                                         long long int /*strideB*/,
                                         const cuDoubleComplex* /*beta*/,
                                         cuDoubleComplex* /*C*/,
                                         int /*ldc*/,
                                         long long int /*strideC*/,
                                         int batch) {
  return Multiply(handle, Sized(Shape("cublasZgemmStridedBatched", transa, transb, CUDA_C_64F), m,
                                n, k, batch));
}

cublasStatus_t cublasZgemmBatched(cublasHandle_t handle,
                                  cublasOperation_t transa,
                                  cublasOperation_t transb,
                                  int m,
                                  int n,
                                  int k,
                                  const cuDoubleComplex* /*alpha*/,
                                  const cuDoubleComplex* const /*A*/[],
                                  int /*lda*/,
                                  const cuDoubleComplex* const /*B*/[],
                                  int /*ldb*/,
                                  const cuDoubleComplex* /*beta*/,
                                  cuDoubleComplex* const /*C*/[],
                                  int /*ldc*/,
                                  int batch) {
  return Multiply(handle,
                  Sized(Shape("cublasZgemmBatched", transa, transb, CUDA_C_64F), m, n, k, batch));
}

cublasStatus_t cublasHgemm(cublasHandle_t handle,
                           cublasOperation_t transa,
                           cublasOperation_t transb,
                           int m,
                           int n,
                           int k,
                           const __half* /*alpha*/,
                           const __half* /*A*/,
                           int /*lda*/,
                           const __half* /*B*/,
                           int /*ldb*/,
                           const __half* /*beta*/,
                           __half* /*C*/,
                           int /*ldc*/) {
  return Multiply(handle, Sized(Shape("cublasHgemm", transa, transb, CUDA_R_16F), m, n, k, 1));
}

cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t handle,
                                         cublasOperation_t transa,
                                         cublasOperation_t transb,
                                         int m,
                                         int n,
                                         int k,
                                         const __half* /*alpha*/,
                                         const __half* /*A*/,
                                         int /*lda*/,
                                         long long int /*strideA*/,
                                         const __half* /*B*/,
                                         int /*ldb*/,
                                         long long int /*strideB*/,
                                         const __half* /*beta*/,
                                         __half* /*C*/,
                                         int /*ldc*/,
                                         long long int /*strideC*/,
                                         int batch) {
  return Multiply(handle, Sized(Shape("cublasHgemmStridedBatched", transa, transb, CUDA_R_16F), m,
                                n, k, batch));
}

cublasStatus_t cublasHgemmBatched(cublasHandle_t handle,
                                  cublasOperation_t transa,
                                  cublasOperation_t transb,
                                  int m,
                                  int n,
                                  int k,
                                  const __half* /*alpha*/,
                                  const __half* const /*A*/[],
                                  int /*lda*/,
                                  const __half* const /*B*/[],
                                  int /*ldb*/,
                                  const __half* /*beta*/,
                                  __half* const /*C*/[],
                                  int /*ldc*/,
                                  int batch) {
  return Multiply(handle,
                  Sized(Shape("cublasHgemmBatched", transa, transb, CUDA_R_16F), m, n, k, batch));
}

cublasStatus_t cublasSgemmEx(cublasHandle_t handle,
                             cublasOperation_t transa,
                             cublasOperation_t transb,
                             int m,
                             int n,
                             int k,
                             const float* /*alpha*/,
                             const void* /*A*/,
                             cudaDataType Atype,
                             int /*lda*/,
                             const void* /*B*/,
                             cudaDataType /*Btype*/,
                             int /*ldb*/,
                             const float* /*beta*/,
                             void* /*C*/,
                             cudaDataType Ctype,
                             int /*ldc*/) {
  auto product = Shape("cublasSgemmEx", transa, transb, Atype);
  product.output = Ctype;
  return Multiply(handle, Sized(product, m, n, k, 1));
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle,
                            cublasOperation_t transa,
                            cublasOperation_t transb,
                            int m,
                            int n,
                            int k,
                            const void* /*alpha*/,
                            const void* /*A*/,
                            cudaDataType Atype,
                            int /*lda*/,
                            const void* /*B*/,
                            cudaDataType /*Btype*/,
                            int /*ldb*/,
                            const void* /*beta*/,
                            void* /*C*/,
                            cudaDataType Ctype,
                            int /*ldc*/,
                            cublasComputeType_t /*compute*/,
                            cublasGemmAlgo_t /*algo*/) {
  auto product = Shape("cublasGemmEx", transa, transb, Atype);
  product.output = Ctype;
  return Multiply(handle, Sized(product, m, n, k, 1));
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle,
                                          cublasOperation_t transa,
                                          cublasOperation_t transb,
                                          int m,
                                          int n,
                                          int k,
                                          const void* /*alpha*/,
                                          const void* /*A*/,
                                          cudaDataType Atype,
                                          int /*lda*/,
                                          long long int /*strideA*/,
                                          const void* /*B*/,
                                          cudaDataType /*Btype*/,
                                          int /*ldb*/,
                                          long long int /*strideB*/,
                                          const void* /*beta*/,
                                          void* /*C*/,
                                          cudaDataType Ctype,
                                          int /*ldc*/,
                                          long long int /*strideC*/,
                                          int batch,
                                          cublasComputeType_t /*compute*/,
                                          cublasGemmAlgo_t /*algo*/) {
  auto product = Shape("cublasGemmStridedBatchedEx", transa, transb, Atype);
  product.output = Ctype;
  return Multiply(handle, Sized(product, m, n, k, batch));
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle,
                                   cublasOperation_t transa,
                                   cublasOperation_t transb,
                                   int m,
                                   int n,
                                   int k,
                                   const void* /*alpha*/,
                                   const void* const /*A*/[],
                                   cudaDataType Atype,
                                   int /*lda*/,
                                   const void* const /*B*/[],
                                   cudaDataType /*Btype*/,
                                   int /*ldb*/,
                                   const void* /*beta*/,
                                   void* const /*C*/[],
                                   cudaDataType Ctype,
                                   int /*ldc*/,
                                   int batch,
                                   cublasComputeType_t /*compute*/,
                                   cublasGemmAlgo_t /*algo*/) {
  auto product = Shape("cublasGemmBatchedEx", transa, transb, Atype);
  product.output = Ctype;
  return Multiply(handle, Sized(product, m, n, k, batch));
}

cublasStatus_t cublasSgemv_v2(cublasHandle_t handle,
                              cublasOperation_t trans,
                              int m,
                              int n,
                              const float* /*alpha*/,
                              const float* /*A*/,
                              int /*lda*/,
                              const float* /*x*/,
                              int /*incx*/,
                              const float* /*beta*/,
                              float* /*y*/,
                              int /*incy*/) {
  // A matrix-vector product is a product with one column.
  const bool plain = trans == CUBLAS_OP_N;
  const auto product = Shape("cublasSgemv", trans, CUBLAS_OP_N, CUDA_R_32F);
  return Multiply(handle, Sized(product, plain ? m : n, 1, plain ? n : m, 1));
}

cublasStatus_t cublasDgemv_v2(cublasHandle_t handle,
                              cublasOperation_t trans,
                              int m,
                              int n,
                              const double* /*alpha*/,
                              const double* /*A*/,
                              int /*lda*/,
                              const double* /*x*/,
                              int /*incx*/,
                              const double* /*beta*/,
                              double* /*y*/,
                              int /*incy*/) {
  // A matrix-vector product is a product with one column.
  const bool plain = trans == CUBLAS_OP_N;
  const auto product = Shape("cublasDgemv", trans, CUBLAS_OP_N, CUDA_R_64F);
  return Multiply(handle, Sized(product, plain ? m : n, 1, plain ? n : m, 1));
}

}  // extern "C"
