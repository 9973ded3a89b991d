// The records of cuBLAS and cuBLASLt calls: a product with its shape, or a kernel named after the
// call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <cuda_runtime_api.h>
#include <library_types.h>

namespace prism::shim {

// One matrix product D[m,n] = A[m,k] · B[k,n], `batch` times, with the names used in the call.
struct Product {
  std::string_view name;  // the library call
  int32_t m, n, k;
  int32_t batch = 1;
  cudaDataType input = CUDA_R_32F;   // type of A and B
  cudaDataType output = CUDA_R_32F;  // type of D
  bool transpose_a = false;
  bool transpose_b = false;
  bool tf32 = false;  // the library may round factors of float32 to it; the recorded name says so
};

size_t ScalarBytes(cudaDataType type);

// Emits kMatmul; nothing for an empty product, for which the real library launches nothing either.
// `stream` is a cudaStream_t.
void EmitProduct(const Product& product, cudaStream_t stream);

// Emits kKernel without a grid, as library calls are.
void EmitLibraryCall(std::string_view name, cudaStream_t stream);

}  // namespace prism::shim
