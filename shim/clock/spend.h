// Time that passes for the calling thread without anything being done: as if it slept.
#pragma once

#include <time.h>

#include <cstdint>

namespace prism::shim {

inline void Spend(int64_t duration_ns) {
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  if (duration_ns > 0) {
    const timespec duration = {duration_ns / kNsPerSecond, duration_ns % kNsPerSecond};
    nanosleep(&duration, nullptr);
  }
}

}  // namespace prism::shim
