// Random numbers that are the same on every platform and compiler, which those of <random> are not.
// xoshiro256** seeded through splitmix64 (both by Vigna, public domain). One stream a purpose:
// Rng(seed, "spot checks") and Rng(seed, "jitter") are independent, so adding draws to one never
// shifts the other.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace prism {

class Rng {
 public:
  Rng(uint64_t seed, std::string_view purpose);

  // 64 uniform bits.
  uint64_t Next();

  // Uniform in [low, high], both included; low <= high.
  int64_t UniformInt(int64_t low, int64_t high);

  // Uniform in [0, 1), a multiple of 2^-53.
  double UniformReal();

  // True with the given probability.
  bool Chance(double probability) { return UniformReal() < probability; }

  // Standard normal, drawn exactly by comparisons of uniform numbers (Karney 2016, algorithm N):
  // no logarithm or cosine, whose last bit differs between C libraries.
  double Normal();

 private:
  bool HalfExponentialTrial();             // true with probability exp(-1/2)
  bool ExponentialTrial(double exponent);  // true with probability exp(-exponent), 0 <= it <= 1

  std::array<uint64_t, 4> state_;
};

}  // namespace prism
