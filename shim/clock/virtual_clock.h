// What time it is for the program. In kEmulate the clock shows the virtual host time of the rank:
// the last answer plus the host cost of what was issued since; it does not follow the machine's own
// clock. In the other modes clocks are real and these calls do nothing. Thread-safe, no locks.
//
// One clock for all threads: objects whose start time is taken in one thread and checked in another
// (c10d's watchdog) would else mix two. clock/interpose.cc shows it to the program through libc's
// time functions.
#pragma once

#include <time.h>

#include <cstdint>

namespace prism::shim {

// Called once by the session, before the program's main: virtual time 0 is "now" of the real clock.
void StartVirtualClock(bool virtual_time);

void AdvanceVirtualClock(int64_t duration_ns);  // host cost of an issued op, a sleep
void SetVirtualClock(int64_t host_time_ns);     // an answer; never moves the clock back

// Virtual host time since the start, nanoseconds.
int64_t VirtualNow();

// True once StartVirtualClock(true) was called.
bool ClockIsVirtual();

// What the program sees on one of libc's clocks, nanoseconds: the real clock at the start plus
// virtual time where the clock is virtual and follows wall time, the real clock's value else.
int64_t ProgramNow(clockid_t clock);

// The real clock of the machine, whatever the mode; 0 for a clock that does not exist.
int64_t RealNow(clockid_t clock);

// When to wake in real time for a wait whose program-visible deadline is given on that clock: as
// far away as the deadline is from the program's now. At least kMinimumWaitNs for a deadline that
// lies ahead: while virtual time stands still, a caller that finds its deadline not yet reached
// waits again, and must not spin.
int64_t RealDeadline(clockid_t clock, int64_t program_deadline_ns);
inline constexpr int64_t kMinimumWaitNs = 1'000'000;

}  // namespace prism::shim
