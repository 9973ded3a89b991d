// The driver's calls that issue, order or own work, as made by NVRTC's and Triton's kernels,
// expandable segments and the libraries without a facade.
#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <iterator>
#include <string_view>

#include <cuda.h>

#include "shim/gpu/driver_calls.h"
#include "shim/gpu/forward.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/runtime_state.h"

PRISM_CREATE(cuModuleGetFunction);
PRISM_RECORD(cuLaunchKernel);
PRISM_RECORD(cuLaunchCooperativeKernel);
PRISM_RECORD(cuMemcpyHtoD);
PRISM_RECORD(cuMemcpyDtoH);
PRISM_RECORD(cuMemcpyDtoD);
PRISM_RECORD(cuMemcpyHtoDAsync);
PRISM_RECORD(cuMemcpyDtoHAsync);
PRISM_RECORD(cuMemcpyDtoDAsync);
PRISM_RECORD(cuMemsetD8Async);
PRISM_RECORD(cuStreamSynchronize);
PRISM_RECORD(cuCtxSynchronize);
PRISM_RECORD(cuMemFree);

PRISM_CALL(cuLaunchKernelEx);
PRISM_CALL(cuMemsetD32Async);
PRISM_CALL(cuMemAlloc);
PRISM_CALL(cuMemCreate);
PRISM_CALL(cuMemRelease);
PRISM_CALL(cuMemMap);
PRISM_CALL(cuMemUnmap);
PRISM_CALL(cuGetProcAddress);
PRISM_CALL_NAMED(cuCtxSynchronize_v2, CUresult(CUcontext));

namespace prism::shim {
namespace {

// The name under which an intercepted call is exported here, and for which requested versions:
// those of the toolkit's headers (cudaTypedefs.h). Requests for another version, whose arguments
// differ, go directly to the driver.
struct SeenCall {
  std::string_view name;
  const char* exported;
  int since;
  int before = INT_MAX;
};
#define PRISM_TEXT_OF(text) #text
#define PRISM_EXPORTED_AS(name) #name, PRISM_TEXT_OF(name)
constexpr SeenCall kSeen[] = {{PRISM_EXPORTED_AS(cuModuleGetFunction), 2000},
                              {PRISM_EXPORTED_AS(cuMemcpyHtoD), 3020},
                              {PRISM_EXPORTED_AS(cuMemcpyDtoH), 3020},
                              {PRISM_EXPORTED_AS(cuMemcpyDtoD), 3020},
                              {PRISM_EXPORTED_AS(cuMemcpyHtoDAsync), 3020},
                              {PRISM_EXPORTED_AS(cuMemcpyDtoHAsync), 3020},
                              {PRISM_EXPORTED_AS(cuMemcpyDtoDAsync), 3020},
                              {PRISM_EXPORTED_AS(cuMemsetD8Async), 3020},
                              {PRISM_EXPORTED_AS(cuMemsetD32Async), 3020},
                              {PRISM_EXPORTED_AS(cuStreamSynchronize), 2000},
                              {PRISM_EXPORTED_AS(cuCtxSynchronize), 2000, 13000},
                              {"cuCtxSynchronize", "cuCtxSynchronize_v2", 13000},
                              {PRISM_EXPORTED_AS(cuMemFree), 3020},
                              {PRISM_EXPORTED_AS(cuLaunchKernel), 4000},
                              {PRISM_EXPORTED_AS(cuLaunchCooperativeKernel), 9000},
                              {PRISM_EXPORTED_AS(cuLaunchKernelEx), 11060},
                              {PRISM_EXPORTED_AS(cuMemAlloc), 3020},
                              {PRISM_EXPORTED_AS(cuMemCreate), 10020},
                              {PRISM_EXPORTED_AS(cuMemRelease), 10020},
                              {PRISM_EXPORTED_AS(cuMemMap), 10020},
                              {PRISM_EXPORTED_AS(cuMemUnmap), 10020},
                              {PRISM_EXPORTED_AS(cuGetProcAddress), 12000}};
#undef PRISM_EXPORTED_AS
#undef PRISM_TEXT_OF

CUresult LaunchKernelEx(const CUlaunchConfig* config,
                        CUfunction function,
                        void** arguments,
                        void** extra) {
  if (!WithinReal::Is()) {
    CUlaunchConfig twin = *config;
    twin.hStream = TwinOf(config->hStream);
    prism_twin_cuLaunchKernelEx(&twin, TwinOf(function), arguments, extra);
  }
  return PRISM_REAL(cuLaunchKernelEx)(config, function, arguments, extra);
}

// The virtual device fills with words itself; only its record is needed.
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

// Handles of physical memory are numbers; their twins are looked up by them as addresses.
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

// Handles may be released while mapped, and the driver may reuse the number.
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

// Contexts of devices other than the one in use do not concern the virtual device.
CUresult CtxSynchronize(CUcontext context) {
  const bool within = WithinReal::Is();
  const CUresult result = PRISM_REAL(cuCtxSynchronize_v2)(context);
  if (!within && result == CUDA_SUCCESS) {
    prism_twin_cuCtxSynchronize();
  }
  return result;
}

CUresult GetProcAddress(const char* name,
                        void** function,
                        int version,
                        cuuint64_t flags,
                        CUdriverProcAddressQueryResult* status) {
  const bool within = WithinReal::Is();
  const CUresult result = PRISM_REAL(cuGetProcAddress)(name, function, version, flags, status);
  if (!within && result == CUDA_SUCCESS) {
    *function = SeenDriverCall(name, version, *function);
  }
  return result;
}

}  // namespace

// Kernels of modules loaded by a call that is not intercepted are known to the driver by name.
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

void* SeenDriverCall(const char* name, int version, void* real) {
  static void* const self = [] {
    Dl_info info = {};
    dladdr(reinterpret_cast<const void*>(&kSeen), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  const auto seen = std::find_if(std::begin(kSeen), std::end(kSeen), [&](const SeenCall& call) {
    return call.name == name && version >= call.since && version < call.before;
  });
  if (self == nullptr || real == nullptr || seen == std::end(kSeen)) {
    return real;
  }
  return dlsym(self, seen->exported);
}

}  // namespace prism::shim

PRISM_INTERCEPT(cuLaunchKernelEx, prism::shim::LaunchKernelEx);
PRISM_INTERCEPT(cuMemsetD32Async, prism::shim::MemsetD32Async);
PRISM_INTERCEPT(cuMemAlloc, prism::shim::MemAlloc);
PRISM_INTERCEPT(cuMemCreate, prism::shim::MemCreate);
PRISM_INTERCEPT(cuMemRelease, prism::shim::MemRelease);
PRISM_INTERCEPT(cuMemMap, prism::shim::MemMap);
PRISM_INTERCEPT(cuMemUnmap, prism::shim::MemUnmap);
PRISM_INTERCEPT(cuGetProcAddress, prism::shim::GetProcAddress);
PRISM_INTERCEPT(cuCtxSynchronize_v2, prism::shim::CtxSynchronize);
