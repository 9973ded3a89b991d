// What time it is for the program. In kEmulate the clock shows the virtual host time of the rank:
// the last answer plus the host cost of what was issued since; it does not follow the machine's own
// clock. In the other modes, and in a forked child, it runs with the machine's, ahead of it by the
// sleeps of the program that took no real time. Thread-safe, no locks.
//
// One clock for all threads: otherwise objects whose start time is taken in one thread and checked
// in another (c10d's watchdog) would mix two. The exception: when a thread that issues nothing has
// really slept or waited while virtual time stood still, its own clock is ahead by as much as it
// asked for, until the process's clock has passed it; otherwise its deadline would never come.
//
// clock/interpose.cc shows all this to the program through libc's time functions.
#pragma once

#include <time.h>

#include <cstdint>

namespace prism::shim {

// Called once by the session, before the program's main: virtual time 0 is "now" of the real clock.
void StartVirtualClock(bool virtual_time);

// In a forked child, which issues nothing: its clock continues from here at the machine's pace.
void LetClockRun();

void AdvanceVirtualClock(int64_t duration_ns);  // host cost of an issued op
void SetVirtualClock(int64_t host_time_ns);     // an answer; never moves the clock back

// A thread that issues ops has slept or waited until then: moves the program's clock there if it is
// behind. The second function moves only the calling thread's own clock, if time is virtual.
void MoveClockTo(clockid_t clock, int64_t program_ns);
void MoveThreadClockTo(clockid_t clock, int64_t program_ns);

// The calling thread is the first to issue an op: its earlier sleeps become time before the rank's
// first op, on the common clock.
void AdoptThreadClock();

// True once StartVirtualClock(true) was called.
bool ClockIsVirtual();

// Whether the program sees the machine's own clock.
bool ClockIsReal();

// What the program sees on one of libc's clocks, nanoseconds; the real clock's value where that
// clock does not follow wall time.
int64_t ProgramNow(clockid_t clock);

// The same for a thread of the program that reads the clock. One that does nothing else waits for
// time to pass (`while (now() < end)`): while virtual time stands still, each reading after
// kReadingsBeforeTimePasses equal ones takes kReadingNs.
int64_t ReadClock(clockid_t clock, bool thread_issues_ops);
inline constexpr int kReadingsBeforeTimePasses = 100'000;
inline constexpr int64_t kReadingNs = 100;  // about what a turn of such a loop takes in Python

// The real clock of the machine, whatever the mode; 0 for a clock that does not exist.
int64_t RealNow(clockid_t clock);

// When to wake in real time for a wait whose program-visible deadline is given on that clock: as
// far away as the deadline is from the program's now. While virtual time stands still, at least
// kMinimumWaitNs for a future deadline, so that a caller that polls does not spin.
int64_t RealDeadline(clockid_t clock, int64_t program_deadline_ns);
inline constexpr int64_t kMinimumWaitNs = 1'000'000;

// No sleep or wait ends early, but always a little late: who adds up sleeps in floating point has
// slept long enough after as many of them as on a real machine, and who asks whether a deadline is
// over after waiting for it finds it over.
inline constexpr int64_t kWakeNs = 1'000;

}  // namespace prism::shim
