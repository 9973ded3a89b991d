// Virtual time: int64 nanoseconds, never floating point (292 years of range). Header-only; shim/
// includes it too.
#pragma once

#include <cmath>
#include <cstdint>

namespace prism {

using TimeNs = int64_t;      // a point in virtual time; 0 is the start of the emulated job
using DurationNs = int64_t;  // a length of virtual time

inline constexpr DurationNs kNsPerUs = 1'000;
inline constexpr DurationNs kNsPerMs = 1'000'000;
inline constexpr DurationNs kNsPerSecond = 1'000'000'000;

// The only conversion from seconds (or from bytes ÷ rate, FLOPs ÷ rate) to virtual time: rounds
// up, so that no positive cost ever vanishes. Results must not depend on the platform, hence one
// place.
inline DurationNs NsFromSeconds(double seconds) {
  return static_cast<DurationNs>(std::ceil(seconds * 1e9 - 1e-6));
}

// The double nearest to the exact value (a product with 1e-9 is not), so that it prints in few
// digits.
inline double SecondsFromNs(DurationNs ns) {
  return static_cast<double>(ns) / 1e9;
}

}  // namespace prism
