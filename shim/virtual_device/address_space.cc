#include "shim/virtual_device/address_space.h"

#include <sys/mman.h>

#include <iterator>

#include "graph/base/divide.h"

namespace prism::shim {

AddressSpace::AddressSpace(size_t bytes, size_t alignment, bool ascending) : ascending_(ascending) {
  void* const mapped = mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    return;
  }
  // With huge pages a copied scalar would cost 2 MiB of the machine's memory. Core dumps leave the
  // reservation out.
  madvise(mapped, bytes + alignment, MADV_NOHUGEPAGE);
  madvise(mapped, bytes + alignment, MADV_DONTDUMP);
  const auto start = reinterpret_cast<uintptr_t>(mapped);
  base_ = RoundUp(start, alignment);
  bytes_ = bytes;
  free_.emplace(base_, bytes_);
}

uintptr_t AddressSpace::Take(size_t bytes) {
  if (ascending_) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      if (range->second < bytes) {
        continue;
      }
      const auto [start, length] = *range;
      free_.erase(range);
      if (length > bytes) {
        free_.emplace(start + bytes, length - bytes);
      }
      return start;
    }
    return 0;
  }
  for (auto range = free_.rbegin(); range != free_.rend(); ++range) {
    if (range->second < bytes) {
      continue;
    }
    range->second -= bytes;
    const uintptr_t taken = range->first + range->second;
    if (range->second == 0) {
      free_.erase(taken);
    }
    return taken;
  }
  return 0;
}

void AddressSpace::Give(uintptr_t address, size_t bytes) {
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      previous->second += bytes;
      return;
    }
  }
  free_.emplace(address, bytes);
}

}  // namespace prism::shim
