// Fixed durations for synthetic kernels. Round numbers of the right size for an H100; benches and
// tests need a plausible shape of the timeline, not accuracy.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/base/time.h"
#include "graph/program/signature.h"

namespace prism::slicer {

inline constexpr double kMatmulFlopsPerSecond = 600e12;
inline constexpr double kMemoryBytesPerSecond = 2.5e12;
inline constexpr DurationNs kKernelFloorNs = 2'000;

inline DurationNs MatmulTime(double flops) {
  return std::max(kKernelFloorNs, NsFromSeconds(flops / kMatmulFlopsPerSecond));
}

inline DurationNs MatmulTime(const graph::MatmulShape& shape) {
  return MatmulTime(2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                    static_cast<double>(shape.k) * static_cast<double>(shape.batch));
}

inline DurationNs MemoryTime(int64_t bytes) {
  return std::max(kKernelFloorNs,
                  NsFromSeconds(static_cast<double>(bytes) / kMemoryBytesPerSecond));
}

}  // namespace prism::slicer
