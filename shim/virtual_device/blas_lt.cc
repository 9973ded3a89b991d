// cuBLASLt: descriptors that keep what a product's record needs, one heuristic result for every
// query, and the product itself. Our descriptors live inside the library's semi-opaque storage, so
// those that a program keeps on its stack (…Init) work as well.
#include <algorithm>
#include <cstdint>
#include <cstring>

#pragma GCC visibility push(default)
#include <cublasLt.h>
#pragma GCC visibility pop

#include "shim/virtual_device/blas_record.h"
#include "shim/virtual_device/library_versions.h"

namespace prism::shim {
namespace {

struct Layout {
  uint64_t rows;
  uint64_t cols;
  int64_t leading;
  int64_t batch_offset;
  int32_t type;  // cudaDataType
  int32_t order;
  int32_t batch_count;
};

struct Description {
  int32_t transpose_a;
  int32_t transpose_b;
  int32_t compute;  // cublasComputeType_t
};

static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Description) <= sizeof(cublasLtMatmulDescOpaque_t));

Layout* FromOpaque(cublasLtMatrixLayout_t layout) {
  return reinterpret_cast<Layout*>(layout);
}

Description* FromOpaque(cublasLtMatmulDesc_t description) {
  return reinterpret_cast<Description*>(description);
}

// Copies an attribute of a fixed size; sizes that do not match are errors in the library too.
template <typename Field>
cublasStatus_t Assign(Field* field, const void* value, size_t bytes) {
  if (value == nullptr || bytes < sizeof(Field)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(field, value, sizeof(Field));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {
size_t cublasLtGetVersion() {
  return static_cast<size_t>(BlasVersion());
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout,
                                                 size_t size,
                                                 cudaDataType type,
                                                 uint64_t rows,
                                                 uint64_t cols,
                                                 int64_t leading) {
  if (layout == nullptr || size < sizeof(Layout)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *FromOpaque(layout) = {rows, cols, leading, 0, type, CUBLASLT_ORDER_COL, 1};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(
    cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t();
  return cublasLtMatrixLayoutInit_internal(*layout, sizeof(**layout), type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value,
                                                size_t bytes) {
  Layout* fields = FromOpaque(layout);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return Assign(&fields->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return Assign(&fields->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return Assign(&fields->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return Assign(&fields->cols, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return Assign(&fields->leading, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return Assign(&fields->batch_count, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return Assign(&fields->batch_offset, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t description,
                                               size_t size,
                                               cublasComputeType_t compute,
                                               cudaDataType_t /*scale*/) {
  if (description == nullptr || size < sizeof(Description)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *FromOpaque(description) = {CUBLAS_OP_N, CUBLAS_OP_N, compute};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *description = new cublasLtMatmulDescOpaque_t();
  return cublasLtMatmulDescInit_internal(*description, sizeof(**description), compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

// Only the transposes are recorded; the others (epilogue, scales, pointers) are accepted, since
// they change neither shape nor types.
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value,
                                              size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Assign(&FromOpaque(description)->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Assign(&FromOpaque(description)->transpose_b, value, bytes);
    default:
      return CUBLAS_STATUS_SUCCESS;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*handle*/,
                                              cublasLtMatmulDesc_t /*description*/,
                                              cublasLtMatrixLayout_t /*a*/,
                                              cublasLtMatrixLayout_t /*b*/,
                                              cublasLtMatrixLayout_t /*c*/,
                                              cublasLtMatrixLayout_t /*d*/,
                                              cublasLtMatmulPreference_t /*preference*/,
                                              int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  if (requested < 1 || results == nullptr || returned == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  results[0] = {};
  results[0].state = CUBLAS_STATUS_SUCCESS;
  results[0].wavesCount = 1;
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/,
                              cublasLtMatmulDesc_t description,
                              const void* /*alpha*/,
                              const void* /*a*/,
                              cublasLtMatrixLayout_t a_layout,
                              const void* /*b*/,
                              cublasLtMatrixLayout_t /*b_layout*/,
                              const void* /*beta*/,
                              const void* /*c*/,
                              cublasLtMatrixLayout_t /*c_layout*/,
                              void* /*d*/,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* /*algo*/,
                              void* /*workspace*/,
                              size_t /*workspace_bytes*/,
                              cudaStream_t stream) {
  if (description == nullptr || a_layout == nullptr || d_layout == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Description& fields = *FromOpaque(description);
  const Layout& a = *FromOpaque(a_layout);
  const Layout& d = *FromOpaque(d_layout);
  Product product = {};
  product.name = "cublasLtMatmul";
  product.m = static_cast<int32_t>(d.rows);
  product.n = static_cast<int32_t>(d.cols);
  product.k = static_cast<int32_t>(fields.transpose_a == CUBLAS_OP_N ? a.cols : a.rows);
  product.batch = std::max(1, d.batch_count);
  product.input = static_cast<cudaDataType>(a.type);
  product.output = static_cast<cudaDataType>(d.type);
  product.transpose_a = fields.transpose_a != CUBLAS_OP_N;
  product.transpose_b = fields.transpose_b != CUBLAS_OP_N;
  product.tf32 = fields.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  EmitProduct(product, stream);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
}  // namespace prism::shim
