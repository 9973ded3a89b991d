// Random numbers that are the same on every platform and compiler, which those of <random> are not.
// xoshiro256** seeded through splitmix64 (both by Vigna, public domain). One stream per purpose:
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

 private:
  std::array<uint64_t, 4> state_;
};

}  // namespace prism
