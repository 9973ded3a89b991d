// Seeded noise on compute durations, a pure function of where the op stands, so that it does not
// depend on the order of evaluation.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "graph/base/ids.h"
#include "graph/base/time.h"

namespace prism::replayer {

struct JitterKey {
  uint64_t seed = 0;
  Rank rank;
  int32_t iteration = 0;
  uint32_t op = 0;
};

// The finaliser of splitmix64.
inline uint64_t MixBits(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

// About normal with mean 0 and variance 1: the sum of four uniforms of 16 bits each, so bounded by
// ±3.5. Integers until the last step: the same on every platform.
inline double NormalNoise(const JitterKey& key) {
  uint64_t bits = MixBits(key.seed ^ MixBits((uint64_t{key.rank.value()} << 32U) | key.op) ^
                          MixBits(static_cast<uint64_t>(key.iteration) << 17U));
  int64_t sum = 0;
  for (unsigned part = 0; part < 4; ++part) {
    sum += static_cast<int64_t>((bits >> (16 * part)) & 0xFFFFU);
  }
  constexpr double kMean = 4 * 65535.0 / 2;
  constexpr double kDeviation = 37837.227;  // sqrt(4 · (65536² - 1) / 12)
  return (static_cast<double>(sum) - kMean) / kDeviation;
}

inline DurationNs Jittered(DurationNs duration, double spread, const JitterKey& key) {
  double factor = std::max(0.0, 1 + spread * NormalNoise(key));
  return std::llround(static_cast<double>(duration) * factor);
}

}  // namespace prism::replayer
