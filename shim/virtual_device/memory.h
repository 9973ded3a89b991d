// Device memory of the virtual GPU: one lazily backed reservation, handed out in the profile's
// order of addresses with CUDA's granularity, accounted against the profile's capacity; and which
// of its bytes were ever written (by a copy, a memset or a collective). Kernels write nothing, so a
// read of other bytes returns zero and is counted. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace prism::shim {

// cudaMalloc and cudaFree; nullptr when the device is full. Emits kSegmentAlloc, kSegmentFree.
void* DeviceAllocate(size_t bytes);
bool DeviceFree(void* pointer);

// Memory that a library holds outside the framework's allocator (context, NCCL): accounted, not
// mapped. Emits kOutsideAlloc. False when it does not fit (NCCL then reports out of memory).
bool AccountOutside(const char* what, uint32_t comm, int64_t bytes);

struct DeviceUsage {
  int64_t free_bytes;
  int64_t total_bytes;
};
DeviceUsage QueryDeviceUsage();

// True when the address is in memory returned by DeviceAllocate or mapped by the driver calls.
bool IsDevicePointer(const void* pointer);

// Copies between host and device, or within either, depending on the addresses. Really copies;
// bytes never written read as zero. Copies above a limit (kRealCopyBytesMax) only mark the target
// as never written, and are counted.
void CopyBytes(void* target, const void* source, size_t bytes);
void SetBytes(void* target, int value, size_t bytes);

// For the NCCL replacement: reads `bytes` at a device or host address into `out`, zero where never
// written; returns how many of them were valid. Writes and marks valid.
size_t ReadBytes(void* out, const void* source, size_t bytes);
void WriteBytes(void* target, const void* data, size_t bytes);

// How many of the bytes were ever written; marks bytes as never written.
size_t ValidBytes(const void* source, size_t bytes);
void Invalidate(void* target, size_t bytes);

}  // namespace prism::shim
