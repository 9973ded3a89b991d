// Random integers, which no kernel draws: within their bounds, and permutations that hold each
// number once. They are the same in every call, whatever the seed, so that iterations whose sizes
// follow from what they draw are alike, as are ranks and runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace prism::shim {

// Element `index` of a call: at least `low`, less than `high`.
int64_t DrawInteger(size_t index, int64_t low, int64_t high);

// Of 0 to count - 1.
std::vector<int64_t> DrawPermutation(int64_t count);

}  // namespace prism::shim
