// Which calls an allocator made, in order, as one number: two ranks with equal hashes laid their
// memory out alike. Blocks that are freed one after the other count in any order: free neighbours
// become one block, so that the same free blocks are left, and autograd frees in the order of a
// table of host addresses.
#pragma once

#include <cstdint>

#include "graph/base/fnv.h"

namespace prism::slicer {

class LayoutHash {
 public:
  // The values are part of the hash.
  enum class Event : uint64_t { kBlockAlloc, kBlockFree, kSegmentAlloc, kSegmentFree };

  // Addresses count from the first one: where the device's memory begins means nothing.
  void Add(Event event, uint64_t address, int64_t bytes) {
    if (first_address_ == 0) {
      first_address_ = address;
    }
    const uint64_t words[] = {static_cast<uint64_t>(event), address - first_address_,
                              static_cast<uint64_t>(bytes)};
    if (event == Event::kBlockFree) {
      freed_ += FnvBytes(words, sizeof(words), kFnvSeed);
    } else {
      hash_ = FnvBytes(words, sizeof(words), hash());
      freed_ = 0;
    }
  }

  [[nodiscard]] uint64_t hash() const {
    return freed_ == 0 ? hash_ : FnvBytes(&freed_, sizeof(freed_), hash_);
  }

 private:
  uint64_t first_address_ = 0;
  uint64_t hash_ = kFnvSeed;
  uint64_t freed_ = 0;  // sum over the blocks freed since another event
};

}  // namespace prism::slicer
