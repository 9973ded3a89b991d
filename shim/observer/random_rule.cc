#include "shim/observer/random_rule.h"

#include <numeric>
#include <utility>

#include "graph/base/mix.h"

namespace prism::shim {

int64_t DrawInteger(size_t index, int64_t low, int64_t high) {
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t bits = MixBits((index + 1) * kSplitMixStep);
  return static_cast<int64_t>(static_cast<uint64_t>(low) + bits % count);
}

std::vector<int64_t> DrawPermutation(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (size_t left = numbers.size(); left > 1; --left) {
    const auto chosen = static_cast<size_t>(DrawInteger(left, 0, static_cast<int64_t>(left)));
    std::swap(numbers[left - 1], numbers[chosen]);
  }
  return numbers;
}

}  // namespace prism::shim
