// Seeded noise on compute durations, a pure function of the op's place, so that it does not depend
// on the order of evaluation.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "graph/base/ids.h"
#include "graph/base/mix.h"
#include "graph/base/time.h"
#include "replayer/perturb/perturbation.h"

namespace prism::replayer {

// Relative spreads by JitterShape: those of one shape add up, factors of different shapes multiply.
struct Jitter {
  std::array<double, kJitterShapes> spread = {};

  void Add(const Perturbation& perturbation) {
    if (perturbation.kind == PerturbationKind::kJitter) {
      spread[static_cast<size_t>(perturbation.shape)] += perturbation.factor;
    }
  }

  [[nodiscard]] bool any() const {
    return std::ranges::any_of(spread, [](double s) { return s > 0; });
  }
};

struct JitterKey {
  uint64_t seed = 0;
  Rank rank;
  int32_t iteration = 0;
  uint32_t op = 0;
};

// One step of splitmix64 from `state`.
inline uint64_t StepBits(uint64_t state) {
  return NextSplitMix(&state);
}

inline uint64_t NoiseBits(const JitterKey& key) {
  return StepBits(key.seed ^ StepBits((uint64_t{key.rank.value()} << 32U) | key.op) ^
                  StepBits(static_cast<uint64_t>(key.iteration) << 17U));
}

// About normal with mean 0 and variance 1: the sum of four uniforms of 16 bits each, so bounded by
// ±3.5. In integers until the last step, so that it is the same on every platform.
inline double NormalNoise(uint64_t bits) {
  int64_t sum = 0;
  for (unsigned part = 0; part < 4; ++part) {
    sum += static_cast<int64_t>((bits >> (16 * part)) & 0xFFFFU);
  }
  constexpr double kMean = 4 * 65535.0 / 2;
  constexpr double kDeviation = 37837.227;  // sqrt(4 · (65536² - 1) / 12)
  return (static_cast<double>(sum) - kMean) / kDeviation;
}

// Uniform in (0, 1), of 53 bits.
inline double UniformNoise(uint64_t bits) {
  return (static_cast<double>(bits >> 11U) + 0.5) * 0x1p-53;
}

// The factor of one shape: mean 1 and standard deviation `spread`, where the bound at 0 does not
// cut it (normal above 0.28, uniform above 0.57). exp and log are the C library's.
inline double JitterFactor(JitterShape shape, double spread, uint64_t bits) {
  switch (shape) {
    case JitterShape::kNormal:
      return std::max(0.0, 1 + spread * NormalNoise(bits));
    case JitterShape::kLognormal: {
      const double variance = std::log1p(spread * spread);
      return std::exp(std::sqrt(variance) * NormalNoise(bits) - variance / 2);
    }
    case JitterShape::kExponential:
      return 1 + spread * (-std::log(UniformNoise(bits)) - 1);
    case JitterShape::kUniform:
      return std::max(0.0, 1 + spread * std::sqrt(3.0) * (2 * UniformNoise(bits) - 1));
  }
  return 1;
}

inline DurationNs Jittered(DurationNs duration, const Jitter& jitter, const JitterKey& key) {
  double factor = 1;
  uint64_t bits = NoiseBits(key);
  for (size_t shape = 0; shape < kJitterShapes; ++shape) {
    if (jitter.spread[shape] > 0) {
      factor *= JitterFactor(static_cast<JitterShape>(shape), jitter.spread[shape], bits);
    }
    bits = StepBits(bits);  // shapes are independent of each other
  }
  return std::llround(static_cast<double>(duration) * factor);
}

}  // namespace prism::replayer
