// Matrix products of cuBLAS: each call emits one kMatmul record with its shape.
#pragma GCC visibility push(default)
#include <cublas_v2.h>
#pragma GCC visibility pop

#include "shim/virtual_device/blas_handle.h"

namespace prism::shim {
namespace {

// Types and sizes shared by the calls of one precision.
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

// The products of one type: single, strided batched, batched by pointers. `name` is that of the
// single one as users write it; cublas_v2.h turns it into the exported one (cublasSgemm_v2).
#define PRISM_GEMMS(name, Scalar, type)                                                            \
  cublasStatus_t name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,   \
                      int m, int n, int k, const Scalar* /*alpha*/, const Scalar* /*A*/,           \
                      int /*lda*/, const Scalar* /*B*/, int /*ldb*/, const Scalar* /*beta*/,       \
                      Scalar* /*C*/, int /*ldc*/) {                                                \
    return Multiply(handle, Sized(Shape(#name, transa, transb, type), m, n, k, 1));                \
  }                                                                                                \
  cublasStatus_t name##StridedBatched(                                                             \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,     \
      int k, const Scalar* /*alpha*/, const Scalar* /*A*/, int /*lda*/, long long int /*strideA*/, \
      const Scalar* /*B*/, int /*ldb*/, long long int /*strideB*/, const Scalar* /*beta*/,         \
      Scalar* /*C*/, int /*ldc*/, long long int /*strideC*/, int batch) {                          \
    return Multiply(handle,                                                                        \
                    Sized(Shape(#name "StridedBatched", transa, transb, type), m, n, k, batch));   \
  }                                                                                                \
  cublasStatus_t name##Batched(cublasHandle_t handle, cublasOperation_t transa,                    \
                               cublasOperation_t transb, int m, int n, int k,                      \
                               const Scalar* /*alpha*/, const Scalar* const /*A*/[], int /*lda*/,  \
                               const Scalar* const /*B*/[], int /*ldb*/, const Scalar* /*beta*/,   \
                               Scalar* const /*C*/[], int /*ldc*/, int batch) {                    \
    return Multiply(handle, Sized(Shape(#name "Batched", transa, transb, type), m, n, k, batch));  \
  }

PRISM_GEMMS(cublasSgemm, float, CUDA_R_32F)
PRISM_GEMMS(cublasDgemm, double, CUDA_R_64F)
PRISM_GEMMS(cublasCgemm, cuComplex, CUDA_C_32F)
PRISM_GEMMS(cublasZgemm, cuDoubleComplex, CUDA_C_64F)
PRISM_GEMMS(cublasHgemm, __half, CUDA_R_16F)
#undef PRISM_GEMMS

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
                            cublasComputeType_t compute,
                            cublasGemmAlgo_t /*algo*/) {
  auto product = Shape("cublasGemmEx", transa, transb, Atype);
  product.output = Ctype;
  product.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
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
                                          cublasComputeType_t compute,
                                          cublasGemmAlgo_t /*algo*/) {
  auto product = Shape("cublasGemmStridedBatchedEx", transa, transb, Atype);
  product.output = Ctype;
  product.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
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
                                   cublasComputeType_t compute,
                                   cublasGemmAlgo_t /*algo*/) {
  auto product = Shape("cublasGemmBatchedEx", transa, transb, Atype);
  product.output = Ctype;
  product.tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  return Multiply(handle, Sized(product, m, n, k, batch));
}

// A matrix-vector product is a product with one column.
#define PRISM_GEMV(name, Scalar, type)                                                          \
  cublasStatus_t name(cublasHandle_t handle, cublasOperation_t trans, int m, int n,             \
                      const Scalar* /*alpha*/, const Scalar* /*A*/, int /*lda*/,                \
                      const Scalar* /*x*/, int /*incx*/, const Scalar* /*beta*/, Scalar* /*y*/, \
                      int /*incy*/) {                                                           \
    const bool plain = trans == CUBLAS_OP_N;                                                    \
    return Multiply(handle, Sized(Shape(#name, trans, CUBLAS_OP_N, type), plain ? m : n, 1,     \
                                  plain ? n : m, 1));                                           \
  }

PRISM_GEMV(cublasSgemv, float, CUDA_R_32F)
PRISM_GEMV(cublasDgemv, double, CUDA_R_64F)
#undef PRISM_GEMV

}  // extern "C"
