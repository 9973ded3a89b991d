// libc's time functions as the program sees them: clocks show virtual time, waits with a deadline
// are converted to real time at the call, a sleep of a thread that issues ops is host time of its
// rank and takes no real time except on a GPU or for a child process (child_waits.h), c10d's
// watchdogs wait for their rank (watchdogs.h). Still real: CPU-time clocks. Sleeps and waits of
// threads that only watch take real time, by which the thread's own clock advances too. Waits for
// descriptors: descriptor_waits.cc.
//
// Tried with Python's time, threading, queue and subprocess and with libstdc++'s condition
// variables.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "graph/base/divide.h"
#include "shim/clock/child_waits.h"
#include "shim/clock/real_time.h"
#include "shim/clock/virtual_clock.h"
#include "shim/clock/watchdogs.h"
#include "shim/observer/loader_workers.h"
#include "shim/session.h"

namespace prism::shim {

namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;

// Before a program has used the device, a shorter sleep may be a poll for what others do.
constexpr int64_t kLongSleepNs = 10 * kNsPerSecond;

// If it is not known from which reading of the clock the deadline of an absolute sleep was
// computed, its length is rounded up, relative to itself.
constexpr int64_t kLeastRoundingNs = 10'000;
constexpr int64_t kRoundingParts = 16;

// Deadlines further back than this on the real-time clock must belong to the monotonic clock: no
// machine has been up since the epoch.
constexpr int64_t kMonotonicBelowNs = int64_t{1'000'000'000} * kNsPerSecond;  // September 2001

int64_t Nanoseconds(const timespec& time) {
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

timespec ToTimespec(int64_t ns) {
  timespec time = {};
  time.tv_sec = ns / kNsPerSecond;
  time.tv_nsec = ns % kNsPerSecond;
  return time;
}

bool IsValid(const timespec* time) {
  return time != nullptr && time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < kNsPerSecond;
}

// The thread's last reading of a clock, until a sleep has used it.
struct Reading {
  clockid_t clock = -1;
  int64_t ns = 0;
};
thread_local Reading reading;

// How long a program that gives a deadline wants to sleep. With real clocks that is what was added
// to the previous reading: the time that the machine has spent since then is not the rank's.
int64_t SleepLengthNs(clockid_t clock, int64_t deadline_ns) {
  const Reading from = std::exchange(reading, {});
  const int64_t ahead_ns = deadline_ns - ProgramNow(clock);
  if (ClockIsVirtual()) {
    return ahead_ns;
  }
  if (from.clock == clock) {
    return deadline_ns - from.ns;
  }
  if (ahead_ns <= 0) {
    return 0;
  }
  const auto magnitude_ns = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(ahead_ns)));
  return RoundUp(ahead_ns, std::max(magnitude_ns / kRoundingParts, kLeastRoundingNs));
}

// Accounts the sleep as host time of the rank, or as a data loader's worker's; false if the thread
// has to sleep for real, as for a child process, or on a GPU, which runs on meanwhile.
bool SleepVirtually(clockid_t clock, int64_t deadline_ns, int64_t duration_ns) {
  if (SleepAsWorker(duration_ns)) {
    MoveClockTo(clock, deadline_ns + kWakeNs);
    return true;
  }
  if (!ThreadIssuesOps(duration_ns >= kLongSleepNs) || TakeRunningChild()) {
    return false;
  }
  if (duration_ns > 0) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kHostGap;
    record.host_gap.duration_ns = duration_ns;
    Emit(record);
    if (SessionMode() == channel::Mode::kDevice) {
      return false;
    }
    MoveClockTo(clock, deadline_ns + kWakeNs);
  }
  return true;
}

// A relative sleep. `wait` sleeps for real.
template <typename Wait>
int SleepFor(clockid_t clock, const timespec* duration, const Wait& wait) {
  if (!IsValid(duration)) {
    return wait();
  }
  const int64_t duration_ns = Nanoseconds(*duration);
  const int64_t deadline_ns = ProgramNow(clock) + duration_ns;
  if (SleepVirtually(clock, deadline_ns, duration_ns)) {
    return 0;
  }
  const int error = wait();
  if (error == 0) {
    MoveThreadClockTo(clock, deadline_ns + kWakeNs);
  }
  return error;
}

// One wait with an absolute deadline. `wait` takes the deadline in real time and returns an error
// number. A thread that has waited in vain has spent that time: otherwise its deadline would never
// be reached. This is not recorded, since how often a program polls is not a property of its rank.
template <typename Wait>
int WaitUntil(clockid_t clock, const timespec* deadline, const Wait& wait) {
  if (ClockIsReal() || !IsValid(deadline)) {
    return wait(deadline);
  }
  const int64_t deadline_ns = Nanoseconds(*deadline);
  const timespec real_deadline = ToTimespec(RealDeadline(clock, deadline_ns));
  const int error = wait(&real_deadline);
  if (error == ETIMEDOUT) {
    (ThreadIssuesOps() ? MoveClockTo : MoveThreadClockTo)(clock, deadline_ns + kWakeNs);
  }
  return error;
}

// The same for functions that return -1 and set errno.
template <typename Wait>
int WaitUntilWithErrno(clockid_t clock, const timespec* deadline, const Wait& wait) {
  const int error =
      WaitUntil(clock, deadline, [&](const timespec* real) { return wait(real) == 0 ? 0 : errno; });
  if (error == 0) {
    return 0;
  }
  errno = error;
  return -1;
}

// A condition variable does not say which clock it uses; the deadline does.
clockid_t ClockOfDeadline(const timespec* deadline) {
  return IsValid(deadline) && Nanoseconds(*deadline) < kMonotonicBelowNs ? CLOCK_MONOTONIC
                                                                         : CLOCK_REALTIME;
}

// Whether a futex call carries an absolute deadline; FUTEX_WAIT's is relative.
bool WaitsUntil(long operation) {
  return (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
}

RealFunction<int(clockid_t, timespec*)> real_clock_gettime("clock_gettime");
RealFunction<int(timeval*, void*)> real_gettimeofday("gettimeofday");
RealFunction<time_t(time_t*)> real_time("time");
RealFunction<int(timespec*, int)> real_timespec_get("timespec_get");
RealFunction<int(const timespec*, timespec*)> real_nanosleep("nanosleep");
RealFunction<int(clockid_t, int, const timespec*, timespec*)> real_clock_nanosleep(
    "clock_nanosleep");
RealFunction<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)> real_cond_timedwait(
    "pthread_cond_timedwait");
RealFunction<int(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>
    real_cond_clockwait("pthread_cond_clockwait");
RealFunction<long(long, ...)> real_syscall("syscall");

}  // namespace

}  // namespace prism::shim

using prism::shim::ClockIsReal;
using prism::shim::ReadClock;
using prism::shim::SleepVirtually;
using prism::shim::ToTimespec;
using prism::shim::WaitUntil;
using prism::shim::WaitUntilWithErrno;

PRISM_INTERPOSED int clock_gettime(clockid_t clock, timespec* now) noexcept {
  // CPU-time clocks are negative or 2 and 3; they, and clocks that do not exist, are left to libc.
  const bool follows_wall_time = clock >= 0 && clock <= CLOCK_TAI &&
                                 clock != CLOCK_PROCESS_CPUTIME_ID &&
                                 clock != CLOCK_THREAD_CPUTIME_ID;
  const int64_t ahead_ns = follows_wall_time ? prism::shim::WatchdogAheadNs(clock) : 0;
  if (!follows_wall_time || (ClockIsReal() && ahead_ns == 0)) {
    const int error = prism::shim::real_clock_gettime.get()(clock, now);
    if (error == 0) {
      prism::shim::reading = {clock, prism::shim::Nanoseconds(*now)};
    }
    return error;
  }
  *now = ToTimespec(ReadClock(clock, prism::shim::ThreadIssuesOps()) + ahead_ns);
  prism::shim::reading = {clock, prism::shim::Nanoseconds(*now)};
  return 0;
}

PRISM_INTERPOSED int gettimeofday(timeval* now, void* zone) noexcept {
  if (ClockIsReal()) {
    return prism::shim::real_gettimeofday.get()(now, zone);
  }
  const timespec time = ToTimespec(ReadClock(CLOCK_REALTIME, prism::shim::ThreadIssuesOps()));
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

PRISM_INTERPOSED time_t time(time_t* now) noexcept {
  if (ClockIsReal()) {
    return prism::shim::real_time.get()(now);
  }
  const time_t seconds =
      ToTimespec(ReadClock(CLOCK_REALTIME, prism::shim::ThreadIssuesOps())).tv_sec;
  if (now != nullptr) {
    *now = seconds;
  }
  return seconds;
}

PRISM_INTERPOSED int timespec_get(timespec* now, int base) noexcept {
  if (ClockIsReal() || base != TIME_UTC) {
    return prism::shim::real_timespec_get.get()(now, base);
  }
  *now = ToTimespec(ReadClock(CLOCK_REALTIME, prism::shim::ThreadIssuesOps()));
  return base;
}

PRISM_INTERPOSED int nanosleep(const timespec* duration, timespec* remaining) {
  return prism::shim::SleepFor(CLOCK_MONOTONIC, duration, [&] {
    return prism::shim::real_nanosleep.get()(duration, remaining);
  });
}

PRISM_INTERPOSED int clock_nanosleep(clockid_t clock,
                                     int flags,
                                     const timespec* request,
                                     timespec* remaining) {
  auto* const real = prism::shim::real_clock_nanosleep.get();
  if ((flags & TIMER_ABSTIME) == 0) {
    return prism::shim::SleepFor(clock, request,
                                 [&] { return real(clock, flags, request, remaining); });
  }
  if (!prism::shim::IsValid(request)) {
    return real(clock, flags, request, remaining);
  }
  const int64_t deadline_ns = prism::shim::Nanoseconds(*request);
  if (SleepVirtually(clock, deadline_ns, prism::shim::SleepLengthNs(clock, deadline_ns))) {
    return 0;
  }
  const timespec real_deadline = ToTimespec(prism::shim::RealDeadline(clock, deadline_ns));
  const int error = real(clock, flags, ClockIsReal() ? request : &real_deadline, remaining);
  if (error == 0) {
    prism::shim::MoveThreadClockTo(clock, deadline_ns + prism::shim::kWakeNs);
  }
  return error;
}

PRISM_INTERPOSED int usleep(useconds_t microseconds) {
  const timespec duration = ToTimespec(int64_t{microseconds} * 1000);
  return nanosleep(&duration, nullptr);
}

PRISM_INTERPOSED unsigned int sleep(unsigned int seconds) {
  timespec duration = ToTimespec(int64_t{seconds} * prism::shim::kNsPerSecond);
  timespec remaining = {};
  if (nanosleep(&duration, &remaining) == 0) {
    return 0;
  }
  return static_cast<unsigned int>(remaining.tv_sec) + (remaining.tv_nsec > 0 ? 1U : 0U);
}

PRISM_INTERPOSED int pthread_cond_timedwait(pthread_cond_t* condition,
                                            pthread_mutex_t* mutex,
                                            const timespec* deadline) {
  const clockid_t clock = prism::shim::ClockOfDeadline(deadline);
  if (prism::shim::WaitsUntilAsked() && prism::shim::IsValid(deadline)) {
    return prism::shim::WaitAsWatchdog(condition, mutex, clock, deadline);
  }
  return WaitUntil(clock, deadline, [&](const timespec* real) {
    return prism::shim::real_cond_timedwait.get()(condition, mutex, real);
  });
}

PRISM_INTERPOSED int pthread_cond_clockwait(pthread_cond_t* condition,
                                            pthread_mutex_t* mutex,
                                            clockid_t clock,
                                            const timespec* deadline) {
  if (prism::shim::WaitsUntilAsked() && prism::shim::IsValid(deadline)) {
    return prism::shim::WaitAsWatchdog(condition, mutex, clock, deadline);
  }
  return WaitUntil(clock, deadline, [&](const timespec* real) {
    return prism::shim::real_cond_clockwait.get()(condition, mutex, clock, real);
  });
}

// A wait for `Object` until a deadline of the real-time clock, and one until that of any clock.
#define PRISM_TIMED(name, Object, wait, ...)                                                   \
  PRISM_INTERPOSED int name(Object* object, const timespec* deadline) __VA_ARGS__ {            \
    static constinit prism::shim::RealFunction<int(Object*, const timespec*)> function(#name); \
    return wait(CLOCK_REALTIME, deadline,                                                      \
                [&](const timespec* real) { return function.get()(object, real); });           \
  }
#define PRISM_CLOCKED(name, Object, wait, ...)                                                     \
  PRISM_INTERPOSED int name(Object* object, clockid_t clock, const timespec* deadline)             \
      __VA_ARGS__ {                                                                                \
    static constinit prism::shim::RealFunction<int(Object*, clockid_t, const timespec*)> function( \
        #name);                                                                                    \
    return wait(clock, deadline,                                                                   \
                [&](const timespec* real) { return function.get()(object, clock, real); });        \
  }
PRISM_TIMED(sem_timedwait, sem_t, WaitUntilWithErrno)
PRISM_CLOCKED(sem_clockwait, sem_t, WaitUntilWithErrno)
PRISM_TIMED(pthread_mutex_timedlock, pthread_mutex_t, WaitUntil, noexcept)
PRISM_CLOCKED(pthread_mutex_clocklock, pthread_mutex_t, WaitUntil, noexcept)
PRISM_TIMED(pthread_rwlock_timedrdlock, pthread_rwlock_t, WaitUntil, noexcept)
PRISM_TIMED(pthread_rwlock_timedwrlock, pthread_rwlock_t, WaitUntil, noexcept)
PRISM_CLOCKED(pthread_rwlock_clockrdlock, pthread_rwlock_t, WaitUntil, noexcept)
PRISM_CLOCKED(pthread_rwlock_clockwrlock, pthread_rwlock_t, WaitUntil, noexcept)
#undef PRISM_TIMED
#undef PRISM_CLOCKED

// libstdc++'s futures and timed atomics wait on futexes directly, through libc's syscall(). Every
// system call has at most six arguments; reading more than were passed gives values that nobody
// uses, as in libc's own; the sanitizer would report reading the sixth, on the caller's stack, as
// an error.
PRISM_INTERPOSED __attribute__((no_sanitize("address"))) long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long arguments[6] = {};
  for (long& argument : arguments) {
    argument = va_arg(list, long);
  }
  va_end(list);
  const auto call = [&](long fourth) {
    return prism::shim::real_syscall.get()(number, arguments[0], arguments[1], arguments[2], fourth,
                                           arguments[4], arguments[5]);
  };
  if (number != SYS_futex || ClockIsReal() || !prism::shim::WaitsUntil(arguments[1])) {
    return call(arguments[3]);
  }
  const clockid_t clock =
      (arguments[1] & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  long result = 0;
  return WaitUntilWithErrno(clock, reinterpret_cast<const timespec*>(arguments[3]),
                            [&](const timespec* real) {
                              result = call(reinterpret_cast<long>(real));
                              return result == -1 ? -1 : 0;
                            }) == 0
             ? result
             : -1;
}
