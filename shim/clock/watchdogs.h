// c10d's watchdogs. Each NCCL process group has a thread that checks every 100 ms of the machine's
// time whether its ops have completed, and then releases their tensors; how often it has checked by
// the time the program continues decides which memory the allocator reuses. Recording is faster
// than any device, so two recordings of one rank would differ. Here watchdogs do not follow the
// clock: they stay in their timed waits until the rank has waited for its device, or has spent
// kWatchdogPeriodNs of host time, with transfers issued since their last check. The rank's thread
// continues when all have checked.
//
// The heartbeat monitor does not wake by itself either, since it guards against a watchdog that
// stands still. When the rank hangs (shim/clock/hung_clock.h) its waits follow the clock, and it
// writes the flight recorder's dump when a watchdog asks for it.
//
// All this only after the session has asked for it: a process that records nothing is not affected.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "shim/channel/messages.h"

namespace prism::shim {

// ProcessGroupNCCL's kWatchdogThreadSleepMillis (torch 2.11).
inline constexpr int64_t kWatchdogPeriodNs = 100'000'000;

// From now on watchdogs stay in their waits until they are asked to check. Called once by the
// session, before the program's main. On a GPU time passes while the rank pauses (a debugger, a
// sleep), and ops end meanwhile: there watchdogs also check when they were not asked for
// kUnaskedNs, so that an op that ended long ago is not taken for one that hangs.
void OrderWatchdogs(bool on_gpu);
inline constexpr int64_t kUnaskedNs = 1'000'000'000;

// Whether the timed waits of the calling thread are WaitAsWatchdog's: it is a watchdog, or a
// heartbeat monitor of a rank that does not hang. Known by its name, as c10d gives it.
bool WaitsUntilAsked();

// The timed wait of such a thread: 0 when the program notified it, ETIMEDOUT when it has to check;
// its clock is then at the deadline (WatchdogAheadNs).
int WaitAsWatchdog(pthread_cond_t* condition,
                   pthread_mutex_t* mutex,
                   clockid_t clock,
                   const timespec* deadline);

// By how much this thread's next reading of the clock has to be ahead of the program's, so that the
// deadline of its wait has passed. Reading the monotonic clock, which a wait reads last, resets it.
int64_t WatchdogAheadNs(clockid_t clock);

// A process group that creates a communicator has a watchdog, which may not have reached its first
// wait yet. `group`: any address that identifies the group.
void ExpectWatchdogOf(const void* group);

// nccl2's process groups ask for the events of their ops whenever another is issued. Set by the
// first of them.
inline std::atomic<bool> asks_at_issue{false};

// Notes what this thread issues and its host cost; true once the host has spent kWatchdogPeriodNs
// since the last check, at an op that is issued without holding a lock of c10d.
bool WatchdogsAreDue(channel::RecordKind kind, int64_t host_cost_ns);

// Returns when every watchdog has checked and waits again; at once if no transfer was issued since
// the last time, unless `in_any_case`. A watchdog that does not come back (it needs a lock that the
// caller holds) is given up after kWatchdogLimitNs of real time; returns false then.
[[nodiscard]] bool LetWatchdogsLook(bool in_any_case);
inline constexpr int64_t kWatchdogLimitNs = 5'000'000'000;

}  // namespace prism::shim
