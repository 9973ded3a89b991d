// The hash of a sequence of numbers, for tables in memory: short and inline, and never written to a
// file (graph/base/hash.h is for those).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/base/mix.h"

namespace prism {

class ContentHash {
 public:
  void Add(int64_t number) {
    hash_ = (std::rotl(hash_, 5) ^ static_cast<uint64_t>(number)) * kSplitMixStep;
  }

  [[nodiscard]] uint64_t Digest() const { return MixBits(hash_); }

 private:
  uint64_t hash_ = 0;
};

// Hash of a row of numbers used as a key.
struct NumbersHash {
  size_t operator()(const std::vector<int64_t>& numbers) const {
    ContentHash hash;
    for (const int64_t number : numbers) {
      hash.Add(number);
    }
    return hash.Digest();
  }
};

}  // namespace prism
