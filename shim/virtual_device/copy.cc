// The runtime's memory calls: allocation, copies, memsets, attributes of addresses.
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "shim/session.h"
#include "shim/virtual_device/capture.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/issue.h"
#include "shim/virtual_device/memory.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;

Record CopyRecord(void* target, const void* source, size_t bytes) {
  Record record = {};
  record.kind = RecordKind::kMemcpy;
  const bool to_device = IsDevicePointer(target);
  const bool from_device = IsDevicePointer(source);
  record.copy = {static_cast<int64_t>(bytes), !from_device && to_device, from_device && !to_device};
  return record;
}

}  // namespace

namespace {

// Whether the host continues only once the bytes have arrived. A copy within the device never
// waits; an asynchronous one does if the device cannot access the host memory (CUDA runtime API,
// "API synchronization behavior"): to pageable memory, and from host to host. From pageable memory
// it waits only for the staging. A graph's copies wait for nothing.
bool HostWaits(const void* target, const void* source, cudaStream_t stream, bool async) {
  if (!async) {
    return !(IsDevicePointer(target) && IsDevicePointer(source));
  }
  return !IsDevicePointer(target) && (IsPageable(target) || !IsDevicePointer(source)) &&
         !IsCaptured(stream);
}

}  // namespace

cudaError_t Copy(void* target, const void* source, size_t bytes, cudaStream_t stream, bool async) {
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (target == nullptr || source == nullptr) {
    return Return(cudaErrorInvalidValue);
  }
  EnsureContext();
  const bool waits = HostWaits(target, source, stream, async);
  if (const cudaError_t error = async ? cudaSuccess : CheckUnsafeCall(); error != cudaSuccess) {
    return error;
  }
  IssueOp(stream, CopyRecord(target, source, bytes), [=] {
    if (waits) {
      SynchronizeStream(stream);
    }
    CopyBytes(target, source, bytes);
  });
  return cudaSuccess;
}

namespace {

void FillWords(void* target, uint32_t value, size_t count) {
  const uint32_t byte = value & 0xFF;
  if (value == byte * 0x01010101U) {
    SetBytes(target, static_cast<int>(byte), 4 * count);
  } else if (4 * count > kRealCopyBytesMax) {
    Invalidate(target, 4 * count);
    Count("large_copies_only_marked");
  } else {
    const std::vector<uint32_t> words(count, value);
    WriteBytes(target, words.data(), 4 * count);
  }
}

cudaError_t IssueSet(size_t bytes, cudaStream_t stream, std::function<void()> effect) {
  if (bytes == 0) {
    return cudaSuccess;
  }
  EnsureContext();
  Record record = {};
  record.kind = RecordKind::kMemset;
  record.copy.bytes = static_cast<int64_t>(bytes);
  IssueOp(stream, record, std::move(effect));
  return cudaSuccess;
}

}  // namespace

cudaError_t Set(void* target, int value, size_t bytes, cudaStream_t stream) {
  return IssueSet(bytes, stream, [=] { SetBytes(target, value, bytes); });
}

cudaError_t SetWords(void* target, uint32_t value, size_t count, cudaStream_t stream) {
  return IssueSet(4 * count, stream, [=] { FillWords(target, value, count); });
}

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  if (bytes == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  if (const cudaError_t error = CheckUnsafeCall(); error != cudaSuccess) {
    return error;
  }
  *pointer = DeviceAllocate(bytes);
  return *pointer == nullptr ? Return(cudaErrorMemoryAllocation) : cudaSuccess;
}

// cudaFree(nullptr) is the usual way to create the context.
cudaError_t cudaFree(void* pointer) {
  EnsureContext();
  if (const cudaError_t error = CheckUnsafeCall(); error != cudaSuccess) {
    return error;
  }
  return pointer == nullptr || PoolFree(pointer) || DeviceFree(pointer)
             ? cudaSuccess
             : Return(cudaErrorInvalidValue);
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(pointer, bytes, nullptr, stream);
}

// Allowed under capture, where allocation and release are nodes of the graph: its launches use the
// memory that the capture allocated.
cudaError_t cudaMallocFromPoolAsync(void** pointer,
                                    size_t bytes,
                                    cudaMemPool_t pool,
                                    cudaStream_t stream) {
  if (bytes == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  *pointer = PoolAllocate(pool, bytes);
  if (*pointer == nullptr) {
    return Return(cudaErrorMemoryAllocation);
  }
  Keep(stream, cudaGraphNodeTypeMemAlloc, [](const GraphRun&) {});
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  if (pointer == nullptr) {
    return cudaSuccess;
  }
  if (!PoolFree(pointer) && !DeviceFree(pointer)) {
    return Return(cudaErrorInvalidValue);
  }
  Keep(stream, cudaGraphNodeTypeMemFree, [](const GraphRun&) {});
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const DeviceUsage usage = QueryDeviceUsage();
  *free_bytes = static_cast<size_t>(usage.free_bytes);
  *total_bytes = static_cast<size_t>(usage.total_bytes);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int /*flags*/) {
  *pointer = HostAllocate(bytes);
  return *pointer == nullptr ? Return(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* pointer) {
  return pointer == nullptr || HostFree(pointer) ? cudaSuccess : Return(cudaErrorInvalidValue);
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned int /*flags*/) {
  return RegisterHost(pointer, bytes) ? cudaSuccess : Return(cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void* pointer) {
  return UnregisterHost(pointer) ? cudaSuccess : Return(cudaErrorHostMemoryNotRegistered);
}

// Host memory has the same address on the device (unified addressing).
cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned int /*flags*/) {
  *device_pointer = pointer;
  return cudaSuccess;
}

cudaError_t cudaHostGetFlags(unsigned int* flags, void* pointer) {
  *flags = cudaHostAllocDefault;
  return FindMemory(pointer).kind == MemoryKind::kPinnedHost ? cudaSuccess
                                                             : Return(cudaErrorInvalidValue);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  const MemoryRange range = FindMemory(pointer);
  const MemoryKind kind = range.kind;
  void* const same = const_cast<void*>(pointer);
  *attributes = {};
  attributes->device = kind == MemoryKind::kUnknown ? -2 : range.device;
  attributes->hostPointer = kind == MemoryKind::kDevice ? nullptr : same;
  attributes->devicePointer = kind == MemoryKind::kUnknown ? nullptr : same;
  attributes->type = kind == MemoryKind::kDevice       ? cudaMemoryTypeDevice
                     : kind == MemoryKind::kPinnedHost ? cudaMemoryTypeHost
                                                       : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
    void* target, const void* source, size_t bytes, cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  return Copy(target, source, bytes, stream, true);
}

cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind /*kind*/) {
  return Copy(target, source, bytes, nullptr, false);
}

cudaError_t cudaMemcpyPeerAsync(void* target,
                                int /*target_device*/,
                                const void* source,
                                int /*source_device*/,
                                size_t bytes,
                                cudaStream_t stream) {
  return Copy(target, source, bytes, stream, true);
}

cudaError_t cudaMemcpyPeer(
    void* target, int /*target_device*/, const void* source, int /*source_device*/, size_t bytes) {
  return Copy(target, source, bytes, nullptr, false);
}

cudaError_t cudaMemcpy2DAsync(void* target,
                              size_t target_pitch,
                              const void* source,
                              size_t source_pitch,
                              size_t width,
                              size_t height,
                              cudaMemcpyKind /*kind*/,
                              cudaStream_t stream) {
  if (width * height == 0) {
    return cudaSuccess;
  }
  // One transfer on the device; done row by row here.
  const bool waits = HostWaits(target, source, stream, true);
  const auto copy_rows = [=] {
    if (waits) {
      SynchronizeStream(stream);
    }
    for (size_t row = 0; row < height; ++row) {
      CopyBytes(static_cast<char*>(target) + row * target_pitch,
                static_cast<const char*>(source) + row * source_pitch, width);
    }
  };
  IssueOp(stream, CopyRecord(target, source, width * height), copy_rows);
  return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(
    const void* symbol, const void* source, size_t bytes, size_t offset, cudaMemcpyKind /*kind*/) {
  void* address = nullptr;
  const cudaError_t error = cudaGetSymbolAddress(&address, symbol);
  return error != cudaSuccess
             ? error
             : Copy(static_cast<char*>(address) + offset, source, bytes, nullptr, false);
}

cudaError_t cudaMemset(void* target, int value, size_t bytes) {
  return Set(target, value, bytes, nullptr);
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t stream) {
  return Set(target, value, bytes, stream);
}
}  // extern "C"
}  // namespace prism::shim
