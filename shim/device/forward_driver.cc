// The driver's calls that issue, order or own work, as NVRTC's and Triton's kernels, expandable
// segments and the libraries without a facade make them.
#include <dlfcn.h>

#include <cstdio>
#include <string_view>

#include <cuda.h>

#include "shim/cuda/device_memory.h"
#include "shim/cuda/runtime_state.h"
#include "shim/device/driver_calls.h"
#include "shim/device/forward.h"

PRISM_MADE(cuModuleGetFunction);
PRISM_TOLD(cuMemcpyHtoD);
PRISM_TOLD(cuMemcpyDtoH);
PRISM_TOLD(cuMemcpyDtoD);
PRISM_TOLD(cuMemcpyHtoDAsync);
PRISM_TOLD(cuMemcpyDtoHAsync);
PRISM_TOLD(cuMemcpyDtoDAsync);
PRISM_TOLD(cuMemsetD8Async);
PRISM_TOLD(cuStreamSynchronize);
PRISM_TOLD(cuCtxSynchronize);
PRISM_TOLD(cuMemFree);

PRISM_CALL(cuLaunchKernel);
PRISM_CALL(cuLaunchCooperativeKernel);
PRISM_CALL(cuLaunchKernelEx);
PRISM_CALL(cuMemsetD32Async);
PRISM_CALL(cuMemAlloc);
PRISM_CALL(cuMemCreate);
PRISM_CALL(cuMemRelease);
PRISM_CALL(cuMemMap);
PRISM_CALL(cuMemUnmap);
PRISM_CALL(cuGetProcAddress);

namespace prism::shim {
namespace {

constexpr const char* kSeen[] = {"cuModuleGetFunction",
                                 "cuMemcpyHtoD",
                                 "cuMemcpyDtoH",
                                 "cuMemcpyDtoD",
                                 "cuMemcpyHtoDAsync",
                                 "cuMemcpyDtoHAsync",
                                 "cuMemcpyDtoDAsync",
                                 "cuMemsetD8Async",
                                 "cuMemsetD32Async",
                                 "cuStreamSynchronize",
                                 "cuCtxSynchronize",
                                 "cuMemFree",
                                 "cuLaunchKernel",
                                 "cuLaunchCooperativeKernel",
                                 "cuLaunchKernelEx",
                                 "cuMemAlloc",
                                 "cuMemCreate",
                                 "cuMemRelease",
                                 "cuMemMap",
                                 "cuMemUnmap",
                                 "cuGetProcAddress"};

// Kernels of modules that came by a call that is not seen are known to the driver by name.
CUfunction TwinOfKernel(CUfunction real) {
  if (void* const twin = FindTwin(real)) {
    return static_cast<CUfunction>(twin);
  }
  const char* name = nullptr;
  auto* const get_name = reinterpret_cast<decltype(&cuFuncGetName)>(LookForReal("cuFuncGetName"));
  const WithinReal within;
  if (get_name == nullptr || get_name(&name, real) != CUDA_SUCCESS || name == nullptr) {
    Count("kernels_without_name");
    name = "unknown kernel";
  }
  const void* const twin = DefineDriverKernel(name);
  PairHandles(real, twin);
  return static_cast<CUfunction>(const_cast<void*>(twin));
}

CUresult LaunchKernel(CUfunction function,
                      unsigned int grid_x,
                      unsigned int grid_y,
                      unsigned int grid_z,
                      unsigned int block_x,
                      unsigned int block_y,
                      unsigned int block_z,
                      unsigned int shared_bytes,
                      CUstream stream,
                      void** arguments,
                      void** extra) {
  if (!WithinReal::Is()) {
    prism_twin_cuLaunchKernel(TwinOfKernel(function), grid_x, grid_y, grid_z, block_x, block_y,
                              block_z, shared_bytes, TwinOf(stream), arguments, extra);
  }
  return PRISM_REAL(cuLaunchKernel)(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                    shared_bytes, stream, arguments, extra);
}

CUresult LaunchCooperativeKernel(CUfunction function,
                                 unsigned int grid_x,
                                 unsigned int grid_y,
                                 unsigned int grid_z,
                                 unsigned int block_x,
                                 unsigned int block_y,
                                 unsigned int block_z,
                                 unsigned int shared_bytes,
                                 CUstream stream,
                                 void** arguments) {
  if (!WithinReal::Is()) {
    prism_twin_cuLaunchCooperativeKernel(TwinOfKernel(function), grid_x, grid_y, grid_z, block_x,
                                         block_y, block_z, shared_bytes, TwinOf(stream), arguments);
  }
  return PRISM_REAL(cuLaunchCooperativeKernel)(function, grid_x, grid_y, grid_z, block_x, block_y,
                                               block_z, shared_bytes, stream, arguments);
}

CUresult LaunchKernelEx(const CUlaunchConfig* config,
                        CUfunction function,
                        void** arguments,
                        void** extra) {
  if (!WithinReal::Is()) {
    CUlaunchConfig twin = *config;
    twin.hStream = TwinOf(config->hStream);
    prism_twin_cuLaunchKernelEx(&twin, TwinOfKernel(function), arguments, extra);
  }
  return PRISM_REAL(cuLaunchKernelEx)(config, function, arguments, extra);
}

// The virtual device fills with words by itself; only its record is wanted.
CUresult MemsetD32Async(CUdeviceptr target, unsigned int value, size_t count, CUstream stream) {
  if (!WithinReal::Is()) {
    prism_twin_cuMemsetD32Async(target, 0, count, TwinOf(stream));
  }
  return PRISM_REAL(cuMemsetD32Async)(target, value, count, stream);
}

CUresult MemAlloc(CUdeviceptr* address, size_t bytes) {
  const bool within = WithinReal::Is();
  const CUresult result = PRISM_REAL(cuMemAlloc)(address, bytes);
  if (!within && (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY)) {
    TellAllocation(result == CUDA_SUCCESS ? reinterpret_cast<void*>(*address) : nullptr);
    CUdeviceptr same = 0;
    PRISM_TWIN_OF(cuMemAlloc)(&same, bytes);
  }
  return result;
}

// Handles of physical memory are numbers; their twins go by them as addresses.
const void* AsPointer(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<const void*>(handle);
}

CUresult MemCreate(CUmemGenericAllocationHandle* handle,
                   size_t bytes,
                   const CUmemAllocationProp* properties,
                   unsigned long long flags) {
  const bool within = WithinReal::Is();
  const CUresult result = PRISM_REAL(cuMemCreate)(handle, bytes, properties, flags);
  if (!within && (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY)) {
    TellAllocation(result == CUDA_SUCCESS ? handle : nullptr);
    CUmemGenericAllocationHandle twin = 0;
    if (prism_twin_cuMemCreate(&twin, bytes, properties, flags) == CUDA_SUCCESS) {
      PairHandles(AsPointer(*handle), AsPointer(twin));
    }
  }
  return result;
}

CUmemGenericAllocationHandle TwinOfMemory(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<CUmemGenericAllocationHandle>(FindTwin(AsPointer(handle)));
}

// Handles may be released while mapped, and the driver may use the number again.
CUresult MemRelease(CUmemGenericAllocationHandle handle) {
  const CUmemGenericAllocationHandle twin = WithinReal::Is() ? 0 : TwinOfMemory(handle);
  if (twin != 0) {
    prism_twin_cuMemRelease(twin);
    UnpairHandle(AsPointer(handle));
  }
  return PRISM_REAL(cuMemRelease)(handle);
}

CUresult MemMap(CUdeviceptr address,
                size_t bytes,
                size_t offset,
                CUmemGenericAllocationHandle handle,
                unsigned long long flags) {
  const CUmemGenericAllocationHandle twin = WithinReal::Is() ? 0 : TwinOfMemory(handle);
  const CUresult result = PRISM_REAL(cuMemMap)(address, bytes, offset, handle, flags);
  if (twin != 0 && result == CUDA_SUCCESS) {
    prism_twin_cuMemMap(address, bytes, offset, twin, flags);
  }
  return result;
}

CUresult MemUnmap(CUdeviceptr address, size_t bytes) {
  if (!WithinReal::Is()) {
    prism_twin_cuMemUnmap(address, bytes);
  }
  return PRISM_REAL(cuMemUnmap)(address, bytes);
}

CUresult GetProcAddress(const char* name,
                        void** function,
                        int version,
                        cuuint64_t flags,
                        CUdriverProcAddressQueryResult* status) {
  const bool within = WithinReal::Is();
  const CUresult result = PRISM_REAL(cuGetProcAddress)(name, function, version, flags, status);
  if (!within && result == CUDA_SUCCESS) {
    *function = SeenDriverCall(name, *function);
  }
  return result;
}

}  // namespace

// Versions of a call that the toolkit's headers have left behind go straight on.
void* SeenDriverCall(const char* name, void* real) {
  static void* const self = [] {
    Dl_info info = {};
    dladdr(reinterpret_cast<const void*>(&kSeen), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  for (const char* const seen : kSeen) {
    if (self == nullptr || real == nullptr || std::string_view(name) != seen) {
      continue;
    }
    char versioned[64] = {};
    snprintf(versioned, sizeof(versioned), "%s_v2", name);
    void* const newer = LookForReal(versioned) == nullptr ? nullptr : dlsym(self, versioned);
    return newer != nullptr ? newer : dlsym(self, name);
  }
  return real;
}

}  // namespace prism::shim

PRISM_SEEN(cuLaunchKernel, prism::shim::LaunchKernel);
PRISM_SEEN(cuLaunchCooperativeKernel, prism::shim::LaunchCooperativeKernel);
PRISM_SEEN(cuLaunchKernelEx, prism::shim::LaunchKernelEx);
PRISM_SEEN(cuMemsetD32Async, prism::shim::MemsetD32Async);
PRISM_SEEN(cuMemAlloc, prism::shim::MemAlloc);
PRISM_SEEN(cuMemCreate, prism::shim::MemCreate);
PRISM_SEEN(cuMemRelease, prism::shim::MemRelease);
PRISM_SEEN(cuMemMap, prism::shim::MemMap);
PRISM_SEEN(cuMemUnmap, prism::shim::MemUnmap);
PRISM_SEEN(cuGetProcAddress, prism::shim::GetProcAddress);
