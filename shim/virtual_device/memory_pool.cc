// Memory pools (cudaMallocAsync): small blocks allocated from chunks that a pool takes from the
// device and releases when they are empty and it holds more than its release threshold. A pool
// grows by kChunkBytes, as the driver's do, or by what an allocation needs; a real one releases at
// the next synchronisation, this one immediately. Streams do not matter: nothing runs on them, so
// freed memory is free.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

#include <cuda_runtime_api.h>

#include "graph/base/divide.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/memory.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

constexpr size_t kBlockBytes = 512;
constexpr size_t kChunkBytes = size_t{32} << 20;  // assumed: pool sizes grow in these steps

struct Chunk {
  size_t bytes = 0;
  std::map<uintptr_t, size_t> free;  // start → bytes, never adjacent
};

struct Level {
  uint64_t now = 0;
  uint64_t high = 0;

  void Add(uint64_t bytes) {
    now += bytes;
    high = std::max(high, now);
  }
};

struct Pool {
  std::map<uintptr_t, Chunk> chunks;
  uint64_t release_threshold = 0;
  int follows_events = 1;
  int opportunistic = 1;
  int internal_dependencies = 1;
  Level reserved;
  Level used;
  bool destroyed = false;
};

struct Block {
  Pool* pool = nullptr;
  uintptr_t chunk = 0;
  size_t bytes = 0;
};

struct Pools {
  std::mutex mutex;
  Pool of_device;
  std::map<uintptr_t, Block> blocks;
};

// Never destroyed: threads of the program free memory until the process ends.
Pools& Get() {
  alignas(Pools) static std::byte storage[sizeof(Pools)];
  static Pools* const pools = new (storage) Pools();
  return *pools;
}

Pool* FromHandle(void* handle) {
  return handle == nullptr ? &Get().of_device : static_cast<Pool*>(handle);
}

bool IsEmpty(const Chunk& chunk) {
  return chunk.free.size() == 1 && chunk.free.begin()->second == chunk.bytes;
}

// Releases empty chunks while the pool holds more than `bytes`.
void Release(Pool* pool, uint64_t bytes) {
  for (auto at = pool->chunks.begin(); at != pool->chunks.end() && pool->reserved.now > bytes;) {
    if (!IsEmpty(at->second)) {
      ++at;
      continue;
    }
    pool->reserved.now -= at->second.bytes;
    DeviceFree(reinterpret_cast<void*>(at->first));
    at = pool->chunks.erase(at);
  }
}

uintptr_t Carve(Pool* pool, size_t bytes, uintptr_t* of) {
  for (auto& [start, chunk] : pool->chunks) {
    for (auto at = chunk.free.begin(); at != chunk.free.end(); ++at) {
      if (at->second < bytes) {
        continue;
      }
      const auto [address, length] = *at;
      chunk.free.erase(at);
      if (length > bytes) {
        chunk.free.emplace(address + bytes, length - bytes);
      }
      *of = start;
      return address;
    }
  }
  return 0;
}

bool Grow(Pool* pool, size_t bytes) {
  const auto fits = [](size_t size) {
    return size <= static_cast<size_t>(QueryDeviceUsage().free_bytes);
  };
  size_t size = RoundUp(bytes, kChunkBytes);
  if (!fits(size)) {
    Release(pool, 0);
    size = fits(size) ? size : RoundUp(bytes, kDeviceGranularity);
  }
  void* const chunk = DeviceAllocate(size);
  if (chunk == nullptr) {
    return false;
  }
  const auto start = reinterpret_cast<uintptr_t>(chunk);
  pool->chunks.emplace(start, Chunk{size, {{start, size}}});
  pool->reserved.Add(size);
  return true;
}

// Merges the block with the free ones on either side.
void PutBack(Chunk* chunk, uintptr_t address, size_t bytes) {
  auto place = chunk->free.emplace(address, bytes).first;
  if (const auto after = std::next(place);
      after != chunk->free.end() && address + bytes == after->first) {
    place->second += after->second;
    chunk->free.erase(after);
  }
  if (place != chunk->free.begin()) {
    const auto before = std::prev(place);
    if (before->first + before->second == address) {
      before->second += place->second;
      chunk->free.erase(place);
    }
  }
}

// Where the pool keeps an attribute; nullptr if it is of the other kind.
int* Switch(Pool* pool, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      return &pool->follows_events;
    case cudaMemPoolReuseAllowOpportunistic:
      return &pool->opportunistic;
    case cudaMemPoolReuseAllowInternalDependencies:
      return &pool->internal_dependencies;
    default:
      return nullptr;
  }
}

uint64_t* Size(Pool* pool, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold:
      return &pool->release_threshold;
    case cudaMemPoolAttrReservedMemCurrent:
      return &pool->reserved.now;
    case cudaMemPoolAttrReservedMemHigh:
      return &pool->reserved.high;
    case cudaMemPoolAttrUsedMemCurrent:
      return &pool->used.now;
    case cudaMemPoolAttrUsedMemHigh:
      return &pool->used.high;
    default:
      return nullptr;
  }
}

}  // namespace

void* PoolAllocate(void* handle, size_t bytes) {
  Pools& pools = Get();
  Pool* const pool = FromHandle(handle);
  const size_t rounded = RoundUp(std::max<size_t>(bytes, 1), kBlockBytes);
  const std::lock_guard<std::mutex> lock(pools.mutex);
  uintptr_t chunk = 0;
  uintptr_t address = rounded < bytes ? 0 : Carve(pool, rounded, &chunk);
  if (address == 0 && Grow(pool, std::max(rounded, bytes))) {
    address = Carve(pool, rounded, &chunk);
  }
  if (address != 0) {
    pools.blocks.emplace(address, Block{pool, chunk, rounded});
    pool->used.Add(rounded);
  }
  return reinterpret_cast<void*>(address);
}

bool PoolFree(void* pointer) {
  Pools& pools = Get();
  const std::lock_guard<std::mutex> lock(pools.mutex);
  const auto found = pools.blocks.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == pools.blocks.end()) {
    return false;
  }
  const auto [pool, chunk, bytes] = found->second;
  pools.blocks.erase(found);
  Invalidate(pointer, bytes);
  PutBack(&pool->chunks.at(chunk), reinterpret_cast<uintptr_t>(pointer), bytes);
  pool->used.now -= bytes;
  Release(pool, pool->destroyed ? 0 : pool->release_threshold);
  return true;
}

extern "C" {

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int /*device*/) {
  *pool = reinterpret_cast<cudaMemPool_t>(&Get().of_device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (properties->allocType != cudaMemAllocationTypePinned ||
      properties->location.type != cudaMemLocationTypeDevice) {
    return Return(cudaErrorNotSupported);
  }
  auto* const made = new (std::nothrow) Pool();
  *pool = reinterpret_cast<cudaMemPool_t>(made);
  return made == nullptr ? Return(cudaErrorMemoryAllocation) : cudaSuccess;
}

// What was allocated from the pool stays until it is freed, and so does the then empty pool.
cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  Pool* const pool = FromHandle(handle);
  if (handle == nullptr || pool == &Get().of_device) {
    return Return(cudaErrorInvalidValue);
  }
  const std::lock_guard<std::mutex> lock(Get().mutex);
  pool->destroyed = true;
  Release(pool, 0);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  Pool* const pool = FromHandle(handle);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  if (const int* const on = Switch(pool, attribute); on != nullptr) {
    *static_cast<int*>(value) = *on;
  } else if (const uint64_t* const size = Size(pool, attribute); size != nullptr) {
    *static_cast<uint64_t*>(value) = *size;
  } else {
    return Return(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

// High-water marks can be reset to the current values; the current values cannot be set.
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  Pool* const pool = FromHandle(handle);
  const std::lock_guard<std::mutex> lock(Get().mutex);
  if (int* const on = Switch(pool, attribute); on != nullptr) {
    *on = *static_cast<const int*>(value);
    return cudaSuccess;
  }
  const uint64_t size = *static_cast<const uint64_t*>(value);
  if (attribute == cudaMemPoolAttrReleaseThreshold) {
    pool->release_threshold = size;
  } else if (attribute == cudaMemPoolAttrReservedMemHigh && size == 0) {
    pool->reserved.high = pool->reserved.now;
  } else if (attribute == cudaMemPoolAttrUsedMemHigh && size == 0) {
    pool->used.high = pool->used.now;
  } else {
    return Return(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t bytes) {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Release(FromHandle(handle), bytes);
  return cudaSuccess;
}
}  // extern "C"
}  // namespace prism::shim
