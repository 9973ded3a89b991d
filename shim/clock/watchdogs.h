// c10d's watchdogs. Each NCCL process group has a thread that looks every 100 ms of the machine's
// time whether its ops have completed, and then lets go of their tensors; how often it has looked
// by the time the program goes on decides which memory the allocator reuses. Recording is faster
// than any device, so two recordings of one rank would differ. Here they do not follow the clock:
// they stand in their timed waits until the rank has waited for its device, or has spent
// kWatchdogPeriodNs of host time, with transfers issued since they last looked. The thread that did
// so goes on when all have looked.
//
// The heartbeat monitor beside them does not wake by itself, since what it guards against is a
// watchdog that stands still, until the rank hangs (shim/clock/hung_clock.h): then its waits follow
// the clock, and it writes the flight recorder's dump when a watchdog asks for it.
//
// Only once the session has asked for it: a process that records nothing is left as it is.
#pragma once

#include <pthread.h>
#include <time.h>

#include <cstdint>

#include "shim/channel/messages.h"

namespace prism::shim {

// ProcessGroupNCCL's kWatchdogThreadSleepMillis (torch 2.11).
inline constexpr int64_t kWatchdogPeriodNs = 100'000'000;

// From now on watchdogs stand in their waits until they are asked. Called once by the session,
// before the program's main. On a GPU time passes while the rank stands still (a debugger, a
// sleep), and their ops end meanwhile: there they also look when nobody has asked for kUnaskedNs,
// before an op that has long ended is taken for one that hangs.
void OrderWatchdogs(bool on_gpu);
inline constexpr int64_t kUnaskedNs = 1'000'000'000;

// Whether the timed waits of the calling thread are WaitAsWatchdog's: it is a watchdog, or a
// heartbeat monitor of a rank that does not hang. Known by its name, as c10d gives it.
bool WaitsUntilAsked();

// The timed wait of such a thread: 0 when the program notified it, ETIMEDOUT when it has to look,
// its clock then at the deadline (WatchdogAheadNs).
int WaitAsWatchdog(pthread_cond_t* condition,
                   pthread_mutex_t* mutex,
                   clockid_t clock,
                   const timespec* deadline);

// By how much this thread's next reading of the clock has to be ahead of the program's, for the
// deadline of its wait to have come. Reading the monotonic clock, which a wait reads last, ends it.
int64_t WatchdogAheadNs(clockid_t clock);

// A process group that makes a communicator has a watchdog, which may not have come to its first
// wait. Any address that stands for the group.
void ExpectWatchdogOf(const void* group);

// Takes note of what this thread issues and of its cost for the host; true once the host has spent
// kWatchdogPeriodNs since the last look, at an op that is issued with no lock of c10d's held.
bool WatchdogsAreDue(channel::RecordKind kind, int64_t host_cost_ns);

// Returns when every watchdog has looked and waits again; at once where no transfer was issued
// since the last time, unless they are to look in any case. One that does not come back (it needs a
// lock of the caller's) is left alone after kWatchdogLimitNs of real time: false then.
[[nodiscard]] bool LetWatchdogsLook(bool in_any_case);
inline constexpr int64_t kWatchdogLimitNs = 5'000'000'000;

}  // namespace prism::shim
