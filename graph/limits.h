// How large a job may be.
#pragma once

#include <cstdint>

namespace prism::graph {

inline constexpr int32_t kMaxRanks = 1 << 20;

}  // namespace prism::graph
