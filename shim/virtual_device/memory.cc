// Invariant: device bytes that are not valid hold zero. So a copy from device memory is a plain
// copy, whichever parts of it were written, and validity is needed only to count and to answer the
// NCCL replacement.
#include "shim/virtual_device/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <optional>

#include "graph/base/divide.h"
#include "shim/nccl/deferred_moves.h"
#include "shim/observer/observer_calls.h"
#include "shim/session.h"
#include "shim/virtual_device/address_space.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/memory_records.h"
#include "shim/virtual_device/runtime_state.h"
#include "shim/virtual_device/written_bytes.h"

namespace prism::shim {
namespace {

using channel::RecordKind;

// Address space of each half, 4 TiB: an expandable segment reserves 9/8 of the device per pool and
// stream. Nothing is backed by memory before it is touched.
constexpr size_t kHalfBytes = size_t{1} << 42;
constexpr size_t kPageBytes = 4096;

struct Extent {
  size_t bytes = 0;
  int device = 0;
};
using Extents = std::map<uintptr_t, Extent>;

struct Memory {
  std::mutex mutex;
  AddressSpace allocations{kHalfBytes, kDeviceGranularity,
                           SessionConfig().device.segments_ascending != 0};
  AddressSpace reservations{kHalfBytes, kDeviceGranularity, true};
  Extents blocks;                              // cudaMalloc, rounded bytes
  std::map<uintptr_t, size_t> address_ranges;  // cuMemAddressReserve
  Extents mapped;                              // cuMemMap
  Extents pinned;                              // cudaHostAlloc, cudaHostRegister
  WrittenBytes valid;
  int64_t used_bytes = 0;
};

// Never destroyed: threads of the program free memory until the process ends.
Memory& Get() {
  alignas(Memory) static std::byte storage[sizeof(Memory)];
  static Memory* const memory = new (storage) Memory();
  return *memory;
}

// What the observer knows about a number that is about to be read (prism_shim_answer_read).
thread_local std::optional<int64_t> answer;

// Used instead of bytes that nobody wrote, if the observer knows them. Libraries keep a count in
// 4 or 8 bytes.
bool TakeAnswer(void* target, size_t bytes) {
  if (!answer || (bytes != sizeof(int32_t) && bytes != sizeof(int64_t))) {
    return false;
  }
  std::memcpy(target, &*answer, bytes);
  answer.reset();
  return true;
}

uintptr_t Address(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

void* Pointer(uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

MemoryRange FindIn(const Extents& ranges, uintptr_t address, MemoryKind kind) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) {
    return {};
  }
  --after;
  const Extent& extent = after->second;
  if (address - after->first >= extent.bytes) {
    return {};
  }
  return {kind, after->first, extent.bytes, extent.device};
}

bool InDevice(const Memory& memory, uintptr_t address) {
  return memory.allocations.Contains(address) || memory.reservations.Contains(address);
}

// Keeps the invariant: whole pages are returned to the system, edges are overwritten.
void ZeroDevice(uintptr_t address, size_t bytes) {
  const uintptr_t first_page = RoundUp(address, kPageBytes);
  const uintptr_t last_page = (address + bytes) / kPageBytes * kPageBytes;
  if (first_page >= last_page || bytes < 16 * kPageBytes) {
    std::memset(Pointer(address), 0, bytes);
    return;
  }
  std::memset(Pointer(address), 0, first_page - address);
  madvise(Pointer(first_page), last_page - first_page, MADV_DONTNEED);
  std::memset(Pointer(last_page), 0, address + bytes - last_page);
}

void InvalidateLocked(Memory& memory, uintptr_t address, size_t bytes) {
  if (memory.valid.Remove(address, bytes)) {
    ZeroDevice(address, bytes);
  }
}

// One account serves all devices, since a rank has one device: a second one would have its own
// memory.
bool TakeLocked(Memory& memory, int64_t bytes) {
  static const int first_device = CurrentDevice();
  if (CurrentDevice() != first_device) {
    Count("memory_of_several_devices");
  }
  if (memory.used_bytes + bytes > SessionConfig().device.memory_bytes) {
    return false;
  }
  memory.used_bytes += bytes;
  return true;
}

}  // namespace

void* DeviceAllocate(size_t bytes) {
  EnsureContext();
  Memory& memory = Get();
  const size_t rounded = RoundUp(std::max<size_t>(bytes, 1), kDeviceGranularity);
  const int device = CurrentDevice();
  uintptr_t address = 0;
  int64_t used_bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(memory.mutex);
    if (rounded >= bytes && rounded < kHalfBytes &&
        TakeLocked(memory, static_cast<int64_t>(rounded))) {
      address = memory.allocations.Take(rounded);
      if (address == 0) {
        memory.used_bytes -= static_cast<int64_t>(rounded);
      } else {
        memory.blocks.emplace(address, Extent{rounded, device});
      }
    }
    used_bytes = memory.used_bytes;
  }
  EmitSegment(address == 0 ? RecordKind::kOutOfMemory : RecordKind::kSegmentAlloc, address, rounded,
              used_bytes);
  return Pointer(address);
}

bool DeviceFree(void* pointer) {
  if (AnyDeferred()) {
    AwaitDeferred(pointer, FindMemory(pointer).bytes, true);
  }
  Memory& memory = Get();
  size_t bytes = 0;
  int64_t used_bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(memory.mutex);
    const auto found = memory.blocks.find(Address(pointer));
    if (found == memory.blocks.end()) {
      return false;
    }
    bytes = found->second.bytes;
    memory.blocks.erase(found);
    InvalidateLocked(memory, Address(pointer), bytes);
    memory.allocations.Give(Address(pointer), bytes);
    memory.used_bytes -= static_cast<int64_t>(bytes);
    used_bytes = memory.used_bytes;
  }
  EmitSegment(RecordKind::kSegmentFree, Address(pointer), bytes, used_bytes);
  return true;
}

bool AccountOutside(const char* what, uint32_t comm, int64_t bytes) {
  Memory& memory = Get();
  int64_t used_bytes = 0;
  bool fits = false;
  {
    const std::lock_guard<std::mutex> lock(memory.mutex);
    fits = TakeLocked(memory, bytes);
    used_bytes = memory.used_bytes;
  }
  if (!fits) {
    EmitSegment(RecordKind::kOutOfMemory, 0, static_cast<size_t>(bytes), used_bytes);
    return false;
  }
  EmitOutside(what, comm, bytes, used_bytes);
  return true;
}

DeviceUsage QueryDeviceUsage() {
  EnsureContext();
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const int64_t total_bytes = SessionConfig().device.memory_bytes;
  return {total_bytes - memory.used_bytes, total_bytes};
}

bool IsDevicePointer(const void* pointer) {
  return FindMemory(pointer).kind == MemoryKind::kDevice;
}

MemoryRange FindMemory(const void* pointer) {
  Memory& memory = Get();
  const uintptr_t address = Address(pointer);
  const std::lock_guard<std::mutex> lock(memory.mutex);
  if (memory.allocations.Contains(address)) {
    return FindIn(memory.blocks, address, MemoryKind::kDevice);
  }
  if (memory.reservations.Contains(address)) {
    return FindIn(memory.mapped, address, MemoryKind::kDevice);
  }
  return FindIn(memory.pinned, address, MemoryKind::kPinnedHost);
}

bool IsPageable(const void* pointer) {
  return FindMemory(pointer).kind == MemoryKind::kUnknown;
}

void CopyBytes(void* target, const void* source, size_t bytes) {
  AwaitDeferred(source, bytes, false);
  AwaitDeferred(target, bytes, true);
  Memory& memory = Get();
  const std::unique_lock<std::mutex> lock(memory.mutex);
  const bool to_device = InDevice(memory, Address(target));
  const bool from_device = InDevice(memory, Address(source));
  if (!to_device) {
    if (from_device && memory.valid.Count(Address(source), bytes) < bytes) {
      if (TakeAnswer(target, bytes)) {
        return;
      }
      Count("unwritten_device_bytes_read");
    }
    std::memmove(target, source, bytes);
    return;
  }
  const auto parts = from_device
                         ? memory.valid.Parts(Address(source), bytes)
                         : std::vector<std::pair<uintptr_t, size_t>>{{Address(source), bytes}};
  size_t written = 0;
  for (const auto& part : parts) {
    written += part.second;
  }
  const bool same = target == source;
  if (same) {
    return;
  }
  if (written > kRealCopyBytesMax) {
    InvalidateLocked(memory, Address(target), bytes);
    Count("large_copies_only_marked");
    return;
  }
  // Overlapping ranges: simply moving everything is right, since bytes that are not valid are zero.
  const bool overlaps =
      Address(target) < Address(source) + bytes && Address(source) < Address(target) + bytes;
  if (overlaps) {
    std::memmove(target, source, bytes);
    memory.valid.Remove(Address(target), bytes);
  } else {
    InvalidateLocked(memory, Address(target), bytes);
  }
  for (const auto& [start, length] : parts) {
    const uintptr_t place = Address(target) + (start - Address(source));
    if (!overlaps) {
      std::memcpy(Pointer(place), Pointer(start), length);
    }
    memory.valid.Add(place, length);
  }
}

void SetBytes(void* target, int value, size_t bytes) {
  AwaitDeferred(target, bytes, true);
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  if (!InDevice(memory, Address(target))) {
    std::memset(target, value, bytes);
    return;
  }
  const bool was_valid = memory.valid.Remove(Address(target), bytes);
  if ((value & 0xFF) == 0 || bytes > kRealCopyBytesMax) {
    if (was_valid) {
      ZeroDevice(Address(target), bytes);
    }
    if ((value & 0xFF) != 0) {
      Count("large_copies_only_marked");
      return;
    }
  } else {
    std::memset(target, value, bytes);
  }
  memory.valid.Add(Address(target), bytes);
}

size_t ReadBytes(void* out, const void* source, size_t bytes) {
  AwaitDeferred(source, bytes, false);
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  std::memcpy(out, source, bytes);
  return InDevice(memory, Address(source)) ? memory.valid.Count(Address(source), bytes) : bytes;
}

void WriteBytes(void* target, const void* data, size_t bytes) {
  AwaitDeferred(target, bytes, true);
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  std::memcpy(target, data, bytes);
  if (InDevice(memory, Address(target))) {
    memory.valid.Add(Address(target), bytes);
  }
}

size_t ValidBytes(const void* source, size_t bytes) {
  AwaitDeferred(source, bytes, false);
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  return InDevice(memory, Address(source)) ? memory.valid.Count(Address(source), bytes) : bytes;
}

void Invalidate(void* target, size_t bytes) {
  AwaitDeferred(target, bytes, true);
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  if (InDevice(memory, Address(target))) {
    InvalidateLocked(memory, Address(target), bytes);
  }
}

uintptr_t ReserveAddresses(size_t bytes) {
  Memory& memory = Get();
  const size_t rounded = RoundUp(bytes, kDeviceGranularity);
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const uintptr_t address = memory.reservations.Take(rounded);
  if (address != 0) {
    memory.address_ranges.emplace(address, rounded);
  }
  return address;
}

bool FreeAddresses(uintptr_t address, size_t bytes) {
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.address_ranges.find(address);
  if (found == memory.address_ranges.end() || found->second != RoundUp(bytes, kDeviceGranularity)) {
    return false;
  }
  memory.reservations.Give(address, found->second);
  memory.address_ranges.erase(found);
  return true;
}

bool TakePhysical(size_t bytes) {
  EnsureContext();
  Memory& memory = Get();
  int64_t used_bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(memory.mutex);
    if (TakeLocked(memory, static_cast<int64_t>(bytes))) {
      return true;
    }
    used_bytes = memory.used_bytes;
  }
  EmitSegment(RecordKind::kOutOfMemory, 0, bytes, used_bytes);
  return false;
}

void GivePhysical(size_t bytes) {
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  memory.used_bytes -= static_cast<int64_t>(bytes);
}

void MapRange(uintptr_t address, size_t bytes, int device) {
  Memory& memory = Get();
  int64_t used_bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(memory.mutex);
    memory.mapped.emplace(address, Extent{bytes, device});
    used_bytes = memory.used_bytes;
  }
  EmitSegment(RecordKind::kSegmentAlloc, address, bytes, used_bytes);
}

void UnmapRange(uintptr_t address, size_t bytes) {
  AwaitDeferred(Pointer(address), bytes, true);
  Memory& memory = Get();
  int64_t used_bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(memory.mutex);
    auto at = memory.mapped.lower_bound(address);
    while (at != memory.mapped.end() && at->first < address + bytes) {
      at = memory.mapped.erase(at);
    }
    InvalidateLocked(memory, address, bytes);
    used_bytes = memory.used_bytes;
  }
  EmitSegment(RecordKind::kSegmentFree, address, bytes, used_bytes);
}

void* ModuleMemory(size_t bytes) {
  const uintptr_t address = ReserveAddresses(bytes);
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  if (address != 0) {
    memory.mapped.emplace(address, Extent{RoundUp(bytes, kDeviceGranularity), CurrentDevice()});
  }
  return Pointer(address);
}

void* HostAllocate(size_t bytes) {
  void* const pointer = aligned_alloc(kPageBytes, RoundUp(std::max<size_t>(bytes, 1), kPageBytes));
  if (pointer != nullptr) {
    RegisterHost(pointer, bytes);
  }
  return pointer;
}

bool HostFree(void* pointer) {
  if (!UnregisterHost(pointer)) {
    return false;
  }
  free(pointer);
  return true;
}

bool RegisterHost(void* pointer, size_t bytes) {
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  return memory.pinned
      .emplace(Address(pointer), Extent{std::max<size_t>(bytes, 1), CurrentDevice()})
      .second;
}

bool UnregisterHost(void* pointer) {
  Memory& memory = Get();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  return memory.pinned.erase(Address(pointer)) != 0;
}

extern "C" size_t prism_shim_read(void* out, const void* source, size_t bytes) {
  return ReadBytes(out, source, bytes);
}

extern "C" void prism_shim_answer_read(const int64_t* number) {
  answer = number != nullptr ? std::optional<int64_t>(*number) : std::nullopt;
}

extern "C" void prism_shim_forget(void* target, size_t bytes) {
  Invalidate(target, bytes);
}

extern "C" void prism_shim_write(void* target, const void* data, size_t bytes) {
  if (IsDevicePointer(target)) {
    WriteBytes(target, data, bytes);
  }
}
}  // namespace prism::shim
