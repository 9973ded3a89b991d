#include "shim/clock/hung_clock.h"

#include <time.h>

#include <atomic>
#include <cstdint>

#include "shim/clock/virtual_clock.h"

namespace prism::shim {
namespace {

std::atomic<int64_t> passed_until_ns{0};  // real time up to which it has passed; 0: not hung

}  // namespace

void LetTimePass() {
  const int64_t now_ns = RealNow(CLOCK_MONOTONIC);
  const int64_t before_ns = passed_until_ns.exchange(now_ns);
  if (before_ns != 0) {
    AdvanceVirtualClock(now_ns - before_ns);
  }
}

bool IsHung() {
  return passed_until_ns.load(std::memory_order_relaxed) != 0;
}

}  // namespace prism::shim
