#include "shim/clock/virtual_clock.h"

#include <algorithm>
#include <atomic>

#include "shim/clock/real_time.h"

namespace prism::shim {

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int kClocks = 12;  // CLOCK_REALTIME (0) to CLOCK_TAI (11)

std::atomic<bool> is_virtual{false};
std::atomic<int64_t> virtual_ns{0};
std::atomic<int64_t> ahead_ns{0};  // of the machine's clock, or of the start and virtual time
int64_t start_ns[kClocks];         // written before is_virtual is set, constant afterwards

thread_local int64_t thread_ns = 0;  // virtual time until which this thread has slept

// The calling thread's readings of the clock while time stood still.
struct EqualReadings {
  int64_t ns = 0;
  int count = 0;
};
thread_local EqualReadings equal_readings;

RealFunction<int(clockid_t, timespec*)> real_clock_gettime("clock_gettime");

// CPU time of process and threads (2, 3 and the negative dynamic ones) stays real.
bool FollowsWallTime(clockid_t clock) {
  return clock >= 0 && clock < kClocks && clock != CLOCK_PROCESS_CPUTIME_ID &&
         clock != CLOCK_THREAD_CPUTIME_ID;
}

// Virtual host time since the start, nanoseconds.
int64_t VirtualNow() {
  return virtual_ns.load(std::memory_order_acquire);
}

}  // namespace

int64_t RealNow(clockid_t clock) {
  timespec now = {};
  if (real_clock_gettime.get()(clock, &now) != 0) {
    return 0;
  }
  return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

void StartVirtualClock(bool virtual_time) {
  if (!virtual_time) {
    return;
  }
  for (clockid_t clock = 0; clock < kClocks; ++clock) {
    start_ns[clock] = RealNow(clock);
  }
  is_virtual.store(true, std::memory_order_release);
}

void LetClockRun() {
  if (ClockIsVirtual()) {
    ahead_ns.store(ProgramNow(CLOCK_MONOTONIC) - RealNow(CLOCK_MONOTONIC));
    is_virtual.store(false, std::memory_order_release);
  }
}

void AdvanceVirtualClock(int64_t duration_ns) {
  if (ClockIsVirtual() && duration_ns > 0) {
    virtual_ns.fetch_add(duration_ns, std::memory_order_acq_rel);
  }
}

void SetVirtualClock(int64_t host_time_ns) {
  if (!ClockIsVirtual()) {
    return;
  }
  int64_t current = virtual_ns.load(std::memory_order_relaxed);
  while (host_time_ns > current &&
         !virtual_ns.compare_exchange_weak(current, host_time_ns, std::memory_order_acq_rel)) {
  }
}

void MoveClockTo(clockid_t clock, int64_t program_ns) {
  const int64_t missing_ns = program_ns - ProgramNow(clock);
  if (FollowsWallTime(clock) && missing_ns > 0) {
    (ClockIsVirtual() ? virtual_ns : ahead_ns).fetch_add(missing_ns, std::memory_order_acq_rel);
  }
}

void MoveThreadClockTo(clockid_t clock, int64_t program_ns) {
  const int64_t missing_ns = program_ns - ProgramNow(clock);
  if (ClockIsVirtual() && FollowsWallTime(clock) && missing_ns > 0) {
    thread_ns = std::max(thread_ns, VirtualNow()) + missing_ns;
  }
}

void AdoptThreadClock() {
  const int64_t missing_ns = thread_ns - VirtualNow();
  if (missing_ns > 0) {
    ahead_ns.fetch_add(missing_ns, std::memory_order_acq_rel);
  }
  thread_ns = 0;
}

bool ClockIsVirtual() {
  return is_virtual.load(std::memory_order_acquire);
}

bool ClockIsReal() {
  return !ClockIsVirtual() && ahead_ns.load(std::memory_order_acquire) == 0;
}

int64_t ProgramNow(clockid_t clock) {
  if (!FollowsWallTime(clock)) {
    return RealNow(clock);
  }
  const int64_t shown_ns = ahead_ns.load(std::memory_order_acquire);
  if (!ClockIsVirtual()) {
    return shown_ns + RealNow(clock);
  }
  return shown_ns + start_ns[clock] + std::max(VirtualNow(), thread_ns);
}

int64_t ReadClock(clockid_t clock, bool thread_issues_ops) {
  if (ClockIsVirtual() && FollowsWallTime(clock)) {
    const int64_t now_ns = ProgramNow(CLOCK_MONOTONIC);
    if (now_ns != equal_readings.ns) {
      equal_readings = {.ns = now_ns, .count = 0};
    } else if (++equal_readings.count >= kReadingsBeforeTimePasses) {
      equal_readings.ns += kReadingNs;
      (thread_issues_ops ? MoveClockTo : MoveThreadClockTo)(CLOCK_MONOTONIC, equal_readings.ns);
    }
  }
  return ProgramNow(clock);
}

int64_t RealDeadline(clockid_t clock, int64_t program_deadline_ns) {
  const int64_t remaining_ns = program_deadline_ns - ProgramNow(clock);
  const int64_t least_ns = remaining_ns > 0 && ClockIsVirtual() ? kMinimumWaitNs : 0;
  return RealNow(clock) + std::max(remaining_ns, least_ns);
}

}  // namespace prism::shim
