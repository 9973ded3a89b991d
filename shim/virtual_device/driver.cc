// The part of the driver API that libtorch, NVRTC and Triton use: initialisation, devices, contexts
// and look-up of functions by name. Memory is in driver_memory.cc, modules in driver_module.cc.
#include <dlfcn.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "shim/session.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

// One context object per device, like primary contexts.
constexpr int kMaxDevices = 64;
char contexts[kMaxDevices];

CUcontext ContextOf(int device) {
  return reinterpret_cast<CUcontext>(&contexts[device]);
}

bool IsDevice(int device) {
  return device >= 0 && device < SessionConfig().device.device_count && device < kMaxDevices;
}

// The devices that were current when this thread pushed other contexts. Plain values: threads may
// end at any time.
constexpr int kMaxPushed = 64;
thread_local int pushed[kMaxPushed];
thread_local int pushed_count = 0;

bool KeepPushed(int device) {
  if (pushed_count == kMaxPushed) {
    return false;
  }
  pushed[pushed_count++] = device;
  return true;
}

// -1: none.
int TakePushed() {
  return pushed_count == 0 ? -1 : pushed[--pushed_count];
}

// Calls whose newer version takes different arguments, and since when (cudaTypedefs.h).
struct NewerCall {
  std::string_view name;
  int since;
};
constexpr NewerCall kNewer[] = {{"cuGetProcAddress", 12000},
                                {"cuStreamGetCtx", 12050},
                                {"cuCtxGetDevice", 13000},
                                {"cuCtxSynchronize", 13000}};

bool IsOlderThanNewest(std::string_view name, int version) {
  return std::any_of(std::begin(kNewer), std::end(kNewer), [&](const NewerCall& call) {
    return call.name == name && version < call.since;
  });
}

// kMaxDevices: none has that context.
int DeviceOf(CUcontext context) {
  int device = 0;
  while (device < kMaxDevices && ContextOf(device) != context) {
    ++device;
  }
  return device;
}

}  // namespace

// The names that this library does not define, those that are refused among them, are in the
// stand-ins, which come after it in the order of the loader.
void* FindOwnFunction(const char* name) {
  static void* const self = [] {
    Dl_info info = {};
    dladdr(reinterpret_cast<const void*>(&contexts), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  void* const found = self == nullptr ? nullptr : dlsym(self, name);
  return found == nullptr ? dlsym(RTLD_NEXT, name) : found;
}

// Names are passed without their version suffix.
void* FindDriverFunction(const char* name, int version) {
  if (IsOlderThanNewest(name, version)) {
    return FindOwnFunction(name);
  }
  for (const char* const suffix : {"_v4", "_v3", "_v2", ""}) {
    void* const found = FindOwnFunction((std::string(name) + suffix).c_str());
    if (found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

extern "C" {
CUresult cuDriverGetVersion(int* version) {
  return static_cast<CUresult>(cudaDriverGetVersion(version));
}

CUresult cuGetProcAddress(const char* name,
                          void** function,
                          int version,
                          cuuint64_t /*flags*/,
                          CUdriverProcAddressQueryResult* status) {
  *function = FindDriverFunction(name, version);
  if (status != nullptr) {
    *status =
        *function == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

// The older form, without a status.
#undef cuGetProcAddress
CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

// NVRTC asks for private tables. Returning an empty one makes it crash; on an error it continues
// without. A program that asks directly has the runtime linked in (static_runtime.cc), without
// symbols.
CUresult cuGetExportTable(const void** table, const CUuuid* /*id*/) {
  Dl_info caller = {};
  Dl_info program = {};
  if (dladdr(__builtin_return_address(0), &caller) != 0 &&
      dladdr(reinterpret_cast<const void*>(getauxval(AT_ENTRY)), &program) != 0 &&
      caller.dli_fbase == program.dli_fbase) {
    Refuse(
        "a CUDA runtime inside of a stripped program (link it with -cudart shared, or do not "
        "strip it)");
  }
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!IsDevice(ordinal)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = SessionConfig().device.device_count;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (!IsDevice(device) || length <= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  snprintf(name, static_cast<size_t>(length), "%s", SessionConfig().device.name);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  cudaDeviceProp prop = {};
  if (ReadProperties(&prop, device) != cudaSuccess) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  std::memcpy(uuid, &prop.uuid, sizeof(*uuid));
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice /*device*/) {
  *bytes = static_cast<size_t>(SessionConfig().device.memory_bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!IsDevice(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *value = DeviceAttribute(attribute, device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  return static_cast<CUresult>(cudaDeviceGetPCIBusId(text, length, device));
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (!IsDevice(device)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  EnsureContext();
  *context = ContextOf(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  *flags = 0;
  *active = device == CurrentDevice() ? 1 : 0;
  return IsDevice(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = ContextOf(CurrentDevice());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) {
    return CUDA_SUCCESS;
  }
  const int device = DeviceOf(context);
  return IsDevice(device) ? static_cast<CUresult>(cudaSetDevice(device))
                          : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  const int below = CurrentDevice();
  const CUresult result =
      context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : cuCtxSetCurrent(context);
  return result == CUDA_SUCCESS && !KeepPushed(below) ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

// The context that was current before the popped one was pushed is current again. A thread's first
// context is at the bottom and stays.
CUresult cuCtxPopCurrent(CUcontext* context) {
  if (context != nullptr) {
    cuCtxGetCurrent(context);
  }
  const int below = TakePushed();
  return below < 0 ? CUDA_SUCCESS : static_cast<CUresult>(cudaSetDevice(below));
}

CUresult cuCtxGetDevice(CUdevice* device) {
  *device = CurrentDevice();
  return CUDA_SUCCESS;
}

// No context means the current one.
CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  *device = context == nullptr ? CurrentDevice() : DeviceOf(context);
  return IsDevice(*device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxSynchronize() {
  return static_cast<CUresult>(cudaDeviceSynchronize());
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  const int current = CurrentDevice();
  const CUresult result = cuCtxSetCurrent(context);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  cuCtxSynchronize();
  return static_cast<CUresult>(cudaSetDevice(current));
}

CUresult cuStreamSynchronize(CUstream stream) {
  SynchronizeStream(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream /*stream*/, CUcontext* context) {
  return cuCtxGetCurrent(context);
}

// No stream belongs to a green context.
CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  if (green != nullptr) {
    *green = nullptr;
  }
  return cuStreamGetCtx(stream, context);
}
}  // extern "C"
}  // namespace prism::shim
