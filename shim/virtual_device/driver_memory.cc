// The driver's virtual memory calls (expandable segments) and its other memory calls that are in
// use. Capacity belongs to the physical handle and returns once handle and mappings are gone.
#include <cstdint>
#include <map>
#include <mutex>
#include <new>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "shim/session.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/memory.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

struct Physical {
  size_t bytes = 0;
  int references = 0;  // the handle itself and every mapping
  CUmemAllocationProp properties = {};
};

struct Mapping {
  size_t bytes = 0;
  Physical* physical = nullptr;
};

struct Mappings {
  std::mutex mutex;
  std::map<uintptr_t, Mapping> by_address;
};

Mappings& Get() {
  alignas(Mappings) static std::byte storage[sizeof(Mappings)];
  static Mappings* const mappings = new (storage) Mappings();
  return *mappings;
}

Physical* FromHandle(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<Physical*>(handle);
}

void DropLocked(Physical* physical) {
  if (--physical->references == 0) {
    GivePhysical(physical->bytes);
    delete physical;
  }
}

void* Pointer(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity,
                                       const CUmemAllocationProp* /*properties*/,
                                       CUmemAllocationGranularity_flags /*option*/) {
  *granularity = kDeviceGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address,
                             size_t bytes,
                             size_t /*alignment*/,
                             CUdeviceptr /*wanted*/,
                             unsigned long long /*flags*/) {
  *address = ReserveAddresses(bytes);
  return *address == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return FreeAddresses(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle,
                     size_t bytes,
                     const CUmemAllocationProp* properties,
                     unsigned long long /*flags*/) {
  if (bytes == 0 || bytes % kDeviceGranularity != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!TakePhysical(bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto* const physical = new (std::nothrow) Physical{bytes, 1, *properties};
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(physical);
  return physical == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  DropLocked(FromHandle(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address,
                  size_t bytes,
                  size_t /*offset*/,
                  CUmemGenericAllocationHandle handle,
                  unsigned long long /*flags*/) {
  Mappings& mappings = Get();
  {
    const std::lock_guard<std::mutex> lock(mappings.mutex);
    if (!mappings.by_address.try_emplace(address, Mapping{bytes, FromHandle(handle)}).second) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    ++FromHandle(handle)->references;
  }
  MapRange(address, bytes, FromHandle(handle)->properties.location.id);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  Mappings& mappings = Get();
  {
    const std::lock_guard<std::mutex> lock(mappings.mutex);
    auto at = mappings.by_address.lower_bound(address);
    while (at != mappings.by_address.end() && at->first < address + bytes) {
      DropLocked(at->second.physical);
      at = mappings.by_address.erase(at);
    }
  }
  UnmapRange(address, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  Mappings& mappings = Get();
  const std::lock_guard<std::mutex> lock(mappings.mutex);
  auto after = mappings.by_address.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (after == mappings.by_address.begin()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  --after;
  if (reinterpret_cast<uintptr_t>(address) - after->first >= after->second.bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++after->second.physical->references;
  *handle = reinterpret_cast<CUmemGenericAllocationHandle>(after->second.physical);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  *properties = FromHandle(handle)->properties;
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return static_cast<CUresult>(cudaMemGetInfo(free_bytes, total_bytes));
}

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  void* pointer = nullptr;
  const cudaError_t error = cudaMalloc(&pointer, bytes);
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return static_cast<CUresult>(error);
}

CUresult cuMemFree(CUdeviceptr address) {
  return static_cast<CUresult>(cudaFree(Pointer(address)));
}

CUresult cuMemGetAddressRange(CUdeviceptr* start, size_t* bytes, CUdeviceptr address) {
  const MemoryRange range = FindMemory(Pointer(address));
  if (range.kind != MemoryKind::kDevice) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (start != nullptr) {
    *start = range.start;
  }
  if (bytes != nullptr) {
    *bytes = range.bytes;
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  const MemoryRange range = FindMemory(Pointer(address));
  if (range.kind == MemoryKind::kUnknown) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool is_device = range.kind == MemoryKind::kDevice;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return cuCtxGetCurrent(static_cast<CUcontext*>(data));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned int*>(data) = is_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = range.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = range.start;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = range.bytes;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = range.start;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned int*>(data) = 0;
      return CUDA_SUCCESS;
    default:
      Refuse("cuPointerGetAttribute");
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult cuMemcpyHtoD(CUdeviceptr target, const void* source, size_t bytes) {
  return static_cast<CUresult>(Copy(Pointer(target), source, bytes, nullptr, false));
}

CUresult cuMemcpyDtoH(void* target, CUdeviceptr source, size_t bytes) {
  return static_cast<CUresult>(Copy(target, Pointer(source), bytes, nullptr, false));
}

CUresult cuMemcpyDtoD(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return static_cast<CUresult>(Copy(Pointer(target), Pointer(source), bytes, nullptr, false));
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void* source, size_t bytes, CUstream stream) {
  return static_cast<CUresult>(Copy(Pointer(target), source, bytes, stream, true));
}

CUresult cuMemcpyDtoHAsync(void* target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return static_cast<CUresult>(Copy(target, Pointer(source), bytes, stream, true));
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return static_cast<CUresult>(Copy(Pointer(target), Pointer(source), bytes, stream, true));
}

CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
  return static_cast<CUresult>(Set(Pointer(target), value, count, stream));
}

CUresult cuMemsetD32Async(CUdeviceptr target, unsigned int value, size_t count, CUstream stream) {
  return static_cast<CUresult>(SetWords(Pointer(target), value, count, stream));
}
}  // extern "C"
}  // namespace prism::shim
