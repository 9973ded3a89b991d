// Limits of GOAL schedules that are accepted here. Times and sizes leave room for sums in int64.
#pragma once

#include <cstdint>

#include "graph/validate/limits.h"

namespace prism::slicer {

inline constexpr uint64_t kMaxGoalNs = 1'000'000'000'000'000;  // 11 days
inline constexpr uint64_t kMaxGoalBytes = uint64_t{1} << 50U;
inline constexpr uint64_t kMaxGoalTag = 0xFFFFFFFEU;  // the one above means any tag
inline constexpr uint64_t kMaxGoalCpu = 255;          // a byte of the binary format
inline constexpr uint32_t kMaxGoalRanks = graph::kMaxRanks;

}  // namespace prism::slicer
