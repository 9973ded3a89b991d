// Calls of the CUDA runtime that code made by nvcc issues: how kernels and variables are registered
// and launched. The toolkit declares them (crt/host_runtime.h, crt/device_functions.h) for nvcc
// alone.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

extern "C" {

void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
char __cudaInitModule(void** handle);
void __cudaRegisterFunction(void** handle,
                            const char* host_stub,
                            char* device_function,
                            const char* device_name,
                            int thread_limit,
                            uint3* thread,
                            uint3* block,
                            dim3* block_dim,
                            dim3* grid_dim,
                            int* warp_size);
void __cudaRegisterVar(void** handle,
                       char* host_variable,
                       char* device_address,
                       const char* device_name,
                       int is_extern,
                       size_t bytes,
                       int is_constant,
                       int is_global);
unsigned __cudaPushCallConfiguration(dim3 grid,
                                     dim3 block,
                                     size_t shared_bytes,
                                     struct CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel,
                               dim3 grid,
                               dim3 block,
                               void** arguments,
                               size_t shared_bytes,
                               cudaStream_t stream);

}  // extern "C"
