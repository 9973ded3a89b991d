// How large a job may be.
#pragma once

#include <cstdint>

namespace prism::graph {

inline constexpr int32_t kMaxRanks = 1 << 20;

// Upper bound for the stated durations of one rank's iteration, 11 days: sums of them over ranks
// and iterations stay far below 2^63.
inline constexpr int64_t kMaxProgramNs = 1'000'000'000'000'000;

}  // namespace prism::graph
