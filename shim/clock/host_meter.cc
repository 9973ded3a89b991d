#include "shim/clock/host_meter.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <limits>

#include "shim/clock/virtual_clock.h"

namespace prism::shim {
namespace {

bool measures_host = false;        // written before the program's main
int64_t reading_ns = 0;            // what two readings of the clock in turn are apart; likewise
int64_t called_ns = 0;             // written once, when the observer is loaded
int64_t called_tensor_ns = 0;      // likewise
thread_local int depth = 0;        // of InShim
thread_local int64_t left_ns = 0;  // when the thread left the shim last
thread_local int64_t outside_ns = 0;
thread_local int64_t charged_ns = 0;      // of outside_ns
thread_local int64_t charged_cpu_ns = 0;  // the thread's CPU time then
thread_local uint32_t framework_ops = 0;

// Without a system call: one at either end of each call would double what a framework op takes.
int64_t Now() {
  return RealNow(CLOCK_MONOTONIC);
}

// The median: some are interrupted.
int64_t MeasureReading() {
  std::array<int64_t, 1001> apart;
  for (int64_t& one : apart) {
    const int64_t first = Now();
    one = Now() - first;
  }
  std::ranges::nth_element(apart, apart.begin() + apart.size() / 2);
  return apart[apart.size() / 2];
}

}  // namespace

void StartHostMeter(bool measures) {
  measures_host = measures;
  if (measures) {
    reading_ns = MeasureReading();
    charged_ns = outside_ns = 0;
    charged_cpu_ns = RealNow(CLOCK_THREAD_CPUTIME_ID);
    left_ns = Now();  // also of a forked rank, which is in the shim now
  }
}

void EnterShim() {
  if (depth++ == 0 && measures_host) {
    outside_ns += left_ns == 0 ? 0 : Now() - left_ns - reading_ns;
  }
}

void LeaveShim() {
  if (--depth == 0 && measures_host) {
    left_ns = Now();
  }
}

void CountFrameworkOp(int64_t tensors) {
  ++framework_ops;
  outside_ns -= called_ns + tensors * called_tensor_ns;
}

void SetObserverCallNs(int64_t call_ns, int64_t tensor_ns) {
  called_ns = call_ns;
  called_tensor_ns = tensor_ns;
}

void ChargeHost(channel::Record* record) {
  if (measures_host) {
    const int64_t cpu_ns = RealNow(CLOCK_THREAD_CPUTIME_ID);
    record->host_ns = static_cast<uint32_t>(
        std::clamp<int64_t>(std::min(outside_ns - charged_ns, cpu_ns - charged_cpu_ns), 1,
                            std::numeric_limits<uint32_t>::max()));
    charged_ns = outside_ns;
    charged_cpu_ns = cpu_ns;
  }
  record->framework_ops = static_cast<uint8_t>(std::min(framework_ops, 255U));
  framework_ops = 0;
}

int64_t OutsideNs() {
  const InShim now;
  return outside_ns;
}

}  // namespace prism::shim
