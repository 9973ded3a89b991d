// The state of this sandbox process, one for all of the shim: configuration, channel, ids of names,
// the thread and framework op of a call. Everything in shim/ reports through this file; nothing
// else writes to the channel.
//
// Without PRISM_CHANNEL_FD the mode is kStandalone: the default device profile, nothing emitted.
// Never throws, never writes to stdout; fatal conditions end the process with one line on stderr.
#pragma once

#include <cstdint>
#include <string_view>

#include "shim/channel/messages.h"

namespace prism::shim {

const channel::Config& SessionConfig();
channel::Mode SessionMode();
bool HasWorked();                   // whether the device was given anything to do
channel::Header* SessionChannel();  // nullptr in kStandalone

// A fork server's child (fork_server/fork_server.h) has become a rank and has been given a channel:
// sends what has been defined and counted so far, and lets time pass if it is to be recorded.
void BeginAsRank();

// This process is a tool that the program runs, not the program: from here on it sends nothing.
extern "C" __attribute__((visibility("default"))) void prism_shim_stay_silent();

// A program that knows `left` rounds like the one that has ended asks how many of them need not
// run: all, or none.
extern "C" __attribute__((visibility("default"))) int32_t prism_shim_rounds_to_skip(int32_t left);

// Sends a record: fills thread ordinal and current context, adds the host cost of its kind to the
// virtual clock (clock/virtual_clock.h), blocks while the ring is full. In kStandalone does
// nothing. Any thread may call; records of one call stay together with their payload.
void Emit(channel::Record record);
void Emit(channel::Record record, const void* payload, uint32_t payload_bytes);

// Sends a record that needs an answer (sync, query_event, elapsed) and waits for it in kEmulate:
// the request number is filled in, the virtual clock set to the answer's host time. In the other
// modes the answer is at once {status 0, host_time 0, value 0}.
struct Reply {
  int32_t status;
  int64_t value_ns;
};
Reply Request(channel::Record record);

// Blocks inside an NCCL call, after sending its records, until the worker lets this process
// continue: a process that has departed from the graph, or whose source line is wanted, is held
// there, so that its stack shows the call. Only if Config::fences is set.
void Fence();

// The dense id of a name or payload in a table, sent to the worker at first use. Thread-safe.
uint32_t DefineOnce(channel::Table table, std::string_view payload);

// True on a thread that has issued ops in this process, if they go to a worker; false on threads
// that only watch (c10d's watchdog, which may free blocks and query events), and in kStandalone.
// `or_will`: true also for the first thread of the process that the worker started, before any has.
bool ThreadIssuesOps(bool or_will = false);

// The framework op current on this thread, set by the observer (kContext id, 0: none).
void SetThreadContext(uint32_t context);
uint32_t ThreadContext();

// kInBackward: a framework op in a backward pass begins or ends on this thread; such ops nest.
// kInOptimizer: an optimizer's step does. What the thread issues in between carries the flag.
void SeePhase(channel::RecordFlag flag, bool begin);

// While set (during the launch of a graph), what this thread issues carries kLaunchedWithPrevious.
void SetThreadInGraph(bool in_graph);

// Counts something assumed, masked or refused under a stable snake_case name (becomes a warning).
void Count(std::string_view counter, int64_t n = 1);

// Refuses a call by name: one line on stderr the first time, counted every time. Returns nothing;
// the caller returns its library's "not supported" code.
void Refuse(const char* function_name);

}  // namespace prism::shim
