#include "shim/clock/host_meter.h"

#include <time.h>

#include <algorithm>
#include <limits>

#include "shim/clock/virtual_clock.h"

namespace prism::shim {
namespace {

thread_local int64_t left_ns = 0;   // the thread's CPU time when it left the shim last
thread_local int64_t spent_ns = 0;  // outside the shim since the last op that was charged

}  // namespace

uint32_t EnterShim(bool is_charged) {
  spent_ns += RealNow(CLOCK_THREAD_CPUTIME_ID) - left_ns;
  const int64_t charged_ns = is_charged ? spent_ns : 0;
  spent_ns -= charged_ns;
  return static_cast<uint32_t>(std::min<int64_t>(charged_ns, std::numeric_limits<uint32_t>::max()));
}

void LeaveShim() {
  left_ns = RealNow(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace prism::shim
