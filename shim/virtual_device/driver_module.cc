// Modules and launches through the driver, as used by NVRTC's and Triton's kernels: a module is
// accepted as it is, its kernels are known by the requested names.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "shim/virtual_device/runtime_state.h"

namespace {

// What a module handle points to; never read.
char module_object = 0;

CUresult LaunchDriver(CUfunction function, const prism::shim::LaunchShape& shape) {
  return static_cast<CUresult>(prism::shim::Launch(function, shape));
}

}  // namespace

extern "C" {

CUresult cuModuleLoad(CUmodule* module, const char* /*path*/) {
  *module = reinterpret_cast<CUmodule>(&module_object);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* /*image*/) {
  return cuModuleLoad(module, nullptr);
}

CUresult cuModuleLoadDataEx(CUmodule* module,
                            const void* /*image*/,
                            unsigned int /*option_count*/,
                            CUjit_option* /*options*/,
                            void** /*values*/) {
  return cuModuleLoad(module, nullptr);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule /*module*/, const char* name) {
  *function = static_cast<CUfunction>(const_cast<void*>(prism::shim::DefineDriverKernel(name)));
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function,
                        unsigned int grid_x,
                        unsigned int grid_y,
                        unsigned int grid_z,
                        unsigned int block_x,
                        unsigned int block_y,
                        unsigned int block_z,
                        unsigned int shared_bytes,
                        CUstream stream,
                        void** /*arguments*/,
                        void** /*extra*/) {
  return LaunchDriver(
      function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream});
}

CUresult cuLaunchCooperativeKernel(CUfunction function,
                                   unsigned int grid_x,
                                   unsigned int grid_y,
                                   unsigned int grid_z,
                                   unsigned int block_x,
                                   unsigned int block_y,
                                   unsigned int block_z,
                                   unsigned int shared_bytes,
                                   CUstream stream,
                                   void** /*arguments*/) {
  return LaunchDriver(
      function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, stream});
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config,
                          CUfunction function,
                          void** /*arguments*/,
                          void** /*extra*/) {
  return LaunchDriver(function, {{config->gridDimX, config->gridDimY, config->gridDimZ},
                                 {config->blockDimX, config->blockDimY, config->blockDimZ},
                                 config->sharedMemBytes,
                                 config->hStream});
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  cudaFuncAttributes attributes = {};
  cudaFuncGetAttributes(&attributes, function);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = attributes.maxThreadsPerBlock;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = attributes.numRegs;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = attributes.binaryVersion;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = attributes.maxDynamicSharedSizeBytes;
      return CUDA_SUCCESS;
    default:
      *value = 0;
      return CUDA_SUCCESS;
  }
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                     CUfunction /*function*/,
                                                     int block_threads,
                                                     size_t shared_bytes) {
  *blocks = prism::shim::OccupancyBlocks(block_threads, shared_bytes);
  return CUDA_SUCCESS;
}

// Descriptors of tensor memory accesses are read only by kernels.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map,
                                CUtensorMapDataType /*type*/,
                                cuuint32_t /*rank*/,
                                void* /*address*/,
                                const cuuint64_t* /*dims*/,
                                const cuuint64_t* /*strides*/,
                                const cuuint32_t* /*box_dims*/,
                                const cuuint32_t* /*element_strides*/,
                                CUtensorMapInterleave /*interleave*/,
                                CUtensorMapSwizzle /*swizzle*/,
                                CUtensorMapL2promotion /*promotion*/,
                                CUtensorMapFloatOOBfill /*fill*/) {
  *map = {};
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters,
                                      CUfunction function,
                                      const CUlaunchConfig* config) {
  cudaLaunchConfig_t same = {};
  same.blockDim = {config->blockDimX, config->blockDimY, config->blockDimZ};
  same.dynamicSmemBytes = config->sharedMemBytes;
  return static_cast<CUresult>(cudaOccupancyMaxActiveClusters(clusters, function, &same));
}
}
