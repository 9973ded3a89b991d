// Which device bytes were ever written: disjoint, never adjacent intervals ordered by address.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace prism::shim {

class WrittenBytes {
 public:
  void Add(uintptr_t start, size_t bytes);
  // True when something was removed.
  bool Remove(uintptr_t start, size_t bytes);
  [[nodiscard]] size_t Count(uintptr_t start, size_t bytes) const;
  // The valid parts of a range, ascending, as (start, bytes).
  [[nodiscard]] std::vector<std::pair<uintptr_t, size_t>> Parts(uintptr_t start,
                                                                size_t bytes) const;

 private:
  std::map<uintptr_t, uintptr_t> intervals_;  // start → end
};

}  // namespace prism::shim
