// What memory.h leaves to the shim's own CUDA files: addresses of the driver's virtual memory
// calls, host memory that the runtime knows, and what kind of memory an address is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace prism::shim {

// cudaMalloc's granularity and that of the virtual memory calls, 2 MiB
// (cuMemGetAllocationGranularity on every GPU since Volta).
inline constexpr size_t kDeviceGranularity = size_t{2} << 20;

// Copies to device memory above this size are not done, only marked (memory.h). Token ids,
// counters, masks and gathered objects are below it; weights are above.
inline constexpr size_t kRealCopyBytesMax = size_t{8} << 20;

// Takes the context's memory at the first use of the device, as a real device does.
void EnsureContext();

// cudaMallocAsync and cudaFreeAsync: blocks of a memory pool, the device's default pool if it is
// nullptr. False for memory that is in no pool.
void* PoolAllocate(void* pool, size_t bytes);
bool PoolFree(void* pointer);

// cuMemAddressReserve and cuMemAddressFree; 0 when there is no room.
uintptr_t ReserveAddresses(size_t bytes);
bool FreeAddresses(uintptr_t address, size_t bytes);

// cuMemCreate and cuMemRelease: capacity without addresses. False when the device is full.
bool TakePhysical(size_t bytes);
void GivePhysical(size_t bytes);

// cuMemMap and cuMemUnmap of a reserved range. kSegmentAlloc and kSegmentFree.
void MapRange(uintptr_t address, size_t bytes, int device);
void UnmapRange(uintptr_t address, size_t bytes);

// Memory of a module's variable: part of what the context takes, so neither accounted nor recorded.
void* ModuleMemory(size_t bytes);

// Pinned host memory: allocated by us, or the program's own, registered.
void* HostAllocate(size_t bytes);
bool HostFree(void* pointer);
bool RegisterHost(void* pointer, size_t bytes);
bool UnregisterHost(void* pointer);

// Whether it is host memory that the runtime does not know: a copy from the device to it is staged.
bool IsPageable(const void* pointer);

enum class MemoryKind { kUnknown, kPinnedHost, kDevice };

struct MemoryRange {
  MemoryKind kind = MemoryKind::kUnknown;
  uintptr_t start = 0;  // of the allocation that contains the address
  size_t bytes = 0;
  int device = 0;  // that device memory was allocated on
};
MemoryRange FindMemory(const void* pointer);

}  // namespace prism::shim
