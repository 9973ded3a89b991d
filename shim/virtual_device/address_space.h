// Ranges of device addresses: one lazily backed reservation of the process in two halves, one for
// allocations (cudaMalloc), one for address ranges of the driver's virtual memory calls. Only keeps
// track of free addresses; memory.cc knows what is allocated and how much it takes. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace prism::shim {

class AddressSpace {
 public:
  // Reserves `bytes` of address space aligned to `alignment`; valid() is false when the system
  // refuses.
  AddressSpace(size_t bytes, size_t alignment, bool ascending);

  [[nodiscard]] bool valid() const { return base_ != 0; }
  [[nodiscard]] uintptr_t base() const { return base_; }
  [[nodiscard]] size_t size() const { return bytes_; }
  [[nodiscard]] bool Contains(uintptr_t address) const {
    return address - base_ < bytes_ && base_ != 0;
  }

  // The first free range that fits, from the low end when ascending, else from the high end;
  // 0 when there is none. `bytes` is a multiple of the alignment.
  uintptr_t Take(size_t bytes);
  void Give(uintptr_t address, size_t bytes);

 private:
  uintptr_t base_ = 0;
  size_t bytes_ = 0;
  bool ascending_;
  std::map<uintptr_t, size_t> free_;  // start → bytes, never adjacent
};

}  // namespace prism::shim
