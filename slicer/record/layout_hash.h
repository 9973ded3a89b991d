// Which calls an allocator made, in order, as one number: two ranks with equal hashes laid their
// memory out alike.
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
    for (const uint64_t word :
         {static_cast<uint64_t>(event), address - first_address_, static_cast<uint64_t>(bytes)}) {
      hash_ = FnvBytes(&word, sizeof(word), hash_);
    }
  }

  [[nodiscard]] uint64_t hash() const { return hash_; }

 private:
  uint64_t first_address_ = 0;
  uint64_t hash_ = kFnvSeed;
};

}  // namespace prism::slicer
