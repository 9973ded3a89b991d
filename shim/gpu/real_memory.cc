#include "shim/gpu/real_memory.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>

#include <cuda_runtime_api.h>

#include "graph/base/divide.h"
#include "shim/gpu/real_library.h"
#include "shim/observer/observer_calls.h"
#include "shim/session.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/memory.h"
#include "shim/virtual_device/memory_records.h"

namespace prism::shim {
namespace {

using channel::RecordKind;

struct Account {
  std::mutex mutex;
  std::map<uintptr_t, size_t> ranges;  // allocated or mapped, rounded bytes
  int64_t used_bytes = 0;
};

Account& Get() {
  alignas(Account) static std::byte storage[sizeof(Account)];
  static Account* const account = new (storage) Account();
  return *account;
}

thread_local void* allocated = nullptr;

uintptr_t Address(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

int64_t Add(int64_t bytes) {
  Account& account = Get();
  const std::lock_guard<std::mutex> lock(account.mutex);
  return account.used_bytes += bytes;
}

void Know(uintptr_t address, size_t bytes, int64_t used_bytes) {
  {
    Account& account = Get();
    const std::lock_guard<std::mutex> lock(account.mutex);
    account.ranges[address] = bytes;
  }
  EmitSegment(RecordKind::kSegmentAlloc, address, bytes, used_bytes);
}

}  // namespace

void TellAllocation(void* real) {
  allocated = real;
}

void* DeviceAllocate(size_t bytes) {
  EnsureContext();
  const size_t rounded = RoundUp(std::max<size_t>(bytes, 1), kDeviceGranularity);
  if (allocated == nullptr) {
    EmitSegment(RecordKind::kOutOfMemory, 0, rounded, Add(0));
  } else {
    Know(Address(allocated), rounded, Add(static_cast<int64_t>(rounded)));
  }
  return allocated;
}

bool DeviceFree(void* pointer) {
  Account& account = Get();
  size_t bytes = 0;
  int64_t used_bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(account.mutex);
    const auto found = account.ranges.find(Address(pointer));
    if (found == account.ranges.end()) {
      return false;
    }
    bytes = found->second;
    account.ranges.erase(found);
    used_bytes = account.used_bytes -= static_cast<int64_t>(bytes);
  }
  EmitSegment(RecordKind::kSegmentFree, Address(pointer), bytes, used_bytes);
  return true;
}

// Pools belong to the real device; their blocks are accounted one by one.
void* PoolAllocate(void* /*pool*/, size_t bytes) {
  return DeviceAllocate(bytes);
}

bool PoolFree(void* pointer) {
  return DeviceFree(pointer);
}

// By the account of the target GPU: the real device has a different amount of memory, and other
// libraries in it.
bool AccountOutside(const char* what, uint32_t comm, int64_t bytes) {
  EmitOutside(what, comm, bytes, Add(bytes));
  return true;
}

// The program gets the real device's answer (forward_runtime.cc).
DeviceUsage QueryDeviceUsage() {
  const int64_t total_bytes = SessionConfig().device.memory_bytes;
  return {total_bytes - Add(0), total_bytes};
}

bool IsDevicePointer(const void* pointer) {
  return FindMemory(pointer).kind == MemoryKind::kDevice;
}

MemoryRange FindMemory(const void* pointer) {
  Account& account = Get();
  const std::lock_guard<std::mutex> lock(account.mutex);
  auto after = account.ranges.upper_bound(Address(pointer));
  if (after == account.ranges.begin()) {
    return {};
  }
  --after;
  if (Address(pointer) - after->first >= after->second) {
    return {};
  }
  return {MemoryKind::kDevice, after->first, after->second};
}

bool IsPageable(const void* pointer) {
  const WithinReal within;
  cudaPointerAttributes attributes = {};
  return PRISM_FIND_REAL(cudaPointerGetAttributes)(&attributes, pointer) == cudaSuccess &&
         attributes.type == cudaMemoryTypeUnregistered;
}

void CopyBytes(void* /*target*/, const void* /*source*/, size_t /*bytes*/) {
}

void SetBytes(void* /*target*/, int /*value*/, size_t /*bytes*/) {
}

// A number that the program has on the device (ncclRedOpCreatePreMulSum).
size_t ReadBytes(void* out, const void* source, size_t bytes) {
  const WithinReal within;
  const cudaError_t error = PRISM_FIND_REAL(cudaMemcpy)(out, source, bytes, cudaMemcpyDefault);
  return error == cudaSuccess ? bytes : 0;
}

void WriteBytes(void* /*target*/, const void* /*data*/, size_t /*bytes*/) {
}

void Invalidate(void* /*target*/, size_t /*bytes*/) {
}

// Capacity belongs to handles, whose bytes are accounted when they are created.
bool TakePhysical(size_t bytes) {
  EnsureContext();
  if (allocated == nullptr) {
    EmitSegment(RecordKind::kOutOfMemory, 0, bytes, Add(0));
    return false;
  }
  Add(static_cast<int64_t>(bytes));
  return true;
}

void GivePhysical(size_t bytes) {
  Add(-static_cast<int64_t>(bytes));
}

void MapRange(uintptr_t address, size_t bytes, int /*device*/) {
  Know(address, bytes, Add(0));
}

void UnmapRange(uintptr_t address, size_t bytes) {
  {
    Account& account = Get();
    const std::lock_guard<std::mutex> lock(account.mutex);
    account.ranges.erase(account.ranges.lower_bound(address),
                         account.ranges.lower_bound(address + bytes));
  }
  EmitSegment(RecordKind::kSegmentFree, address, bytes, Add(0));
}

// Never called: the virtual device does not see any of these calls.
uintptr_t ReserveAddresses(size_t /*bytes*/) {
  return 0;
}

bool FreeAddresses(uintptr_t /*address*/, size_t /*bytes*/) {
  return false;
}

void* HostAllocate(size_t /*bytes*/) {
  return nullptr;
}

bool HostFree(void* /*pointer*/) {
  return false;
}

bool RegisterHost(void* /*pointer*/, size_t /*bytes*/) {
  return false;
}

bool UnregisterHost(void* /*pointer*/) {
  return false;
}

// Represents a variable of the program's own module: copies to it are copies to the device.
void* ModuleMemory(size_t bytes) {
  auto* const place = new std::byte[bytes];
  Account& account = Get();
  const std::lock_guard<std::mutex> lock(account.mutex);
  account.ranges[Address(place)] = bytes;
  return place;
}

}  // namespace prism::shim

// Results of kernels are really there. A device of the tests has no kernels: what the observer
// knows of their results (shim/observer/value_rules.h) goes to it.
extern "C" {

size_t prism_shim_read(void* out, const void* source, size_t bytes) {
  return PRISM_FIND_REAL(prism_shim_read)(out, source, bytes);
}

void prism_shim_answer_read(const int64_t* number) {
  PRISM_FIND_REAL(prism_shim_answer_read)(number);
}

void prism_shim_forget(void* target, size_t bytes) {
  PRISM_FIND_REAL(prism_shim_forget)(target, bytes);
}

void prism_shim_write(void* target, const void* data, size_t bytes) {
  PRISM_FIND_REAL(prism_shim_write)(target, data, bytes);
}
}
