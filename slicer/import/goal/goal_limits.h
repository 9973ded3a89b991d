// Limits of GOAL schedules that are accepted here. Times and sizes leave room for sums in int64.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "graph/validate/limits.h"

namespace prism::slicer {

inline constexpr uint64_t kMaxGoalNs = 1'000'000'000'000'000;  // 11 days
inline constexpr uint64_t kMaxGoalBytes = uint64_t{1} << 50U;
inline constexpr uint64_t kMaxGoalTag = 0xFFFFFFFEU;  // the one above means any tag
inline constexpr uint64_t kMaxGoalCpu = 255;          // a byte of the binary format
inline constexpr uint32_t kMaxGoalRanks = graph::kMaxRanks;

// In a graph: the name of every calc, and the marker around a task that is not on cpu and nic 0.
inline constexpr const char* kGoalCalc = "calc";

inline std::string GoalPlace(unsigned cpu, unsigned nic) {
  return fmt::format("cpu {} nic {}", cpu, nic);
}

}  // namespace prism::slicer
