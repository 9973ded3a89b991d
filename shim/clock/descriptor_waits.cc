// Waits for descriptors as the program sees them: poll, select, epoll_wait and their variants take
// their time-outs for real, and one that passed has passed in virtual time as well. Otherwise who
// polls until a point in time (multiprocessing, subprocess, asyncio) would wait for ever. Not
// recorded, as with other waits in vain (interpose.cc).
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>

#include <cstdint>

#include "shim/clock/real_time.h"
#include "shim/clock/virtual_clock.h"
#include "shim/session.h"

namespace prism::shim {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kNsPerMillisecond = 1'000'000;
constexpr int64_t kNsPerMicrosecond = 1'000;
constexpr int64_t kForEver = -1;
constexpr int64_t kMaxSeconds = 1'000'000'000;  // thirty years do not pass

// A time-out of poll and epoll_wait, in milliseconds; below 0 for ever.
int64_t TimeoutNs(int milliseconds) {
  return milliseconds < 0 ? kForEver : milliseconds * kNsPerMillisecond;
}

int64_t TimeoutNs(int64_t seconds, int64_t ns) {
  return seconds > kMaxSeconds ? kForEver : seconds * kNsPerSecond + ns;
}

int64_t TimeoutNs(const timespec* timeout) {
  return timeout == nullptr ? kForEver : TimeoutNs(timeout->tv_sec, timeout->tv_nsec);
}

int64_t TimeoutNs(const timeval* timeout) {
  return timeout == nullptr ? kForEver
                            : TimeoutNs(timeout->tv_sec, timeout->tv_usec * kNsPerMicrosecond);
}

// `wait` returns 0 when the time-out has passed.
template <typename Wait>
int WaitFor(int64_t timeout_ns, const Wait& wait) {
  if (ClockIsReal()) {
    return wait();
  }
  const int64_t deadline_ns = ProgramNow(CLOCK_MONOTONIC) + timeout_ns;
  const int ready = wait();
  if (ready == 0 && timeout_ns > 0) {
    const int error = errno;
    (ThreadIssuesOps() ? MoveClockTo : MoveThreadClockTo)(CLOCK_MONOTONIC, deadline_ns + kWakeNs);
    errno = error;
  }
  return ready;
}

RealFunction<int(pollfd*, nfds_t, int)> real_poll("poll");
RealFunction<int(pollfd*, nfds_t, const timespec*, const sigset_t*)> real_ppoll("ppoll");
RealFunction<int(int, fd_set*, fd_set*, fd_set*, timeval*)> real_select("select");
RealFunction<int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*)> real_pselect(
    "pselect");
RealFunction<int(int, epoll_event*, int, int)> real_epoll_wait("epoll_wait");
RealFunction<int(int, epoll_event*, int, int, const sigset_t*)> real_epoll_pwait("epoll_pwait");
RealFunction<int(int, epoll_event*, int, const timespec*, const sigset_t*)> real_epoll_pwait2(
    "epoll_pwait2");

}  // namespace
}  // namespace prism::shim

using prism::shim::TimeoutNs;
using prism::shim::WaitFor;

PRISM_INTERPOSED int poll(pollfd* descriptors, nfds_t count, int timeout) {
  return WaitFor(TimeoutNs(timeout),
                 [&] { return prism::shim::real_poll.get()(descriptors, count, timeout); });
}

PRISM_INTERPOSED int ppoll(pollfd* descriptors,
                           nfds_t count,
                           const timespec* timeout,
                           const sigset_t* signals) {
  return WaitFor(TimeoutNs(timeout), [&] {
    return prism::shim::real_ppoll.get()(descriptors, count, timeout, signals);
  });
}

// The real one leaves in `timeout` what is left of it.
PRISM_INTERPOSED int select(
    int count, fd_set* readable, fd_set* writable, fd_set* exceptional, timeval* timeout) {
  return WaitFor(TimeoutNs(timeout), [&] {
    return prism::shim::real_select.get()(count, readable, writable, exceptional, timeout);
  });
}

PRISM_INTERPOSED int pselect(int count,
                             fd_set* readable,
                             fd_set* writable,
                             fd_set* exceptional,
                             const timespec* timeout,
                             const sigset_t* signals) {
  return WaitFor(TimeoutNs(timeout), [&] {
    return prism::shim::real_pselect.get()(count, readable, writable, exceptional, timeout,
                                           signals);
  });
}

PRISM_INTERPOSED int epoll_wait(int epoll, epoll_event* events, int count, int timeout) {
  return WaitFor(TimeoutNs(timeout),
                 [&] { return prism::shim::real_epoll_wait.get()(epoll, events, count, timeout); });
}

PRISM_INTERPOSED int epoll_pwait(
    int epoll, epoll_event* events, int count, int timeout, const sigset_t* signals) {
  return WaitFor(TimeoutNs(timeout), [&] {
    return prism::shim::real_epoll_pwait.get()(epoll, events, count, timeout, signals);
  });
}

PRISM_INTERPOSED int epoll_pwait2(
    int epoll, epoll_event* events, int count, const timespec* timeout, const sigset_t* signals) {
  return WaitFor(TimeoutNs(timeout), [&] {
    return prism::shim::real_epoll_pwait2.get()(epoll, events, count, timeout, signals);
  });
}
