// What the framework's allocator says of itself, against what was seen of it.
#pragma once

#include <cstdint>
#include <string>

#include "shim/channel/messages.h"

namespace prism::slicer {

class AllocatorStats {
 public:
  // `allocated` and `peak`: the sum of its blocks, now and at most. Its own peak may be below ours
  // if the program has reset it, never above.
  void Push(const channel::AllocatorStatsBody& body, int64_t allocated, int64_t peak);

  // Whether it reported anything.
  [[nodiscard]] bool seen() const { return seen_; }
  [[nodiscard]] int64_t peak_reserved() const { return peak_reserved_; }

  // How often its count differed from the sum of blocks, and the first time.
  [[nodiscard]] int64_t differs() const { return differs_; }
  [[nodiscard]] const std::string& example() const { return example_; }

 private:
  bool seen_ = false;
  int64_t peak_reserved_ = 0;
  int64_t differs_ = 0;
  std::string example_;
};

}  // namespace prism::slicer
