// The finaliser of splitmix64 (Vigna, public domain): turns counters and keys into well-mixed
// bits, the same everywhere. Header only, so that the shim may use it too.
#pragma once

#include <cstdint>

namespace prism {

// What splitmix64 adds to its state at every step: 2^64 over the golden ratio.
inline constexpr uint64_t kSplitMixStep = 0x9E3779B97F4A7C15U;

// One to one; a change of any bit changes about half of the result's.
constexpr uint64_t MixBits(uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

// The next number of splitmix64.
constexpr uint64_t NextSplitMix(uint64_t* state) {
  *state += kSplitMixStep;
  return MixBits(*state);
}

}  // namespace prism
