// The state of this sandbox process, one for all of the shim: configuration, channel, ids of names,
// the thread and framework op a call comes from. Everything in shim/ goes through here to say what
// happened; nothing else writes to the channel.
//
// Without PRISM_CHANNEL_FD the mode is kStandalone: the default device profile, nothing emitted.
// Never throws, never writes to stdout; fatal conditions end the process with one line on stderr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shim/channel/messages.h"

namespace prism::shim {

const channel::Config& SessionConfig();
channel::Mode SessionMode();
channel::Header* SessionChannel();  // nullptr in kStandalone

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

// Stands inside an NCCL call, its records sent, until the worker lets this process go on: one that
// has departed from the graph, or whose source is looked for, is held there, so that its stack
// shows the call. Only where Config::fences is set.
void Fence();

// The dense id of a name or payload in a table, defined to the worker at first use. Thread-safe.
uint32_t DefineOnce(channel::Table table, std::string_view payload);

// True on a thread that has issued ops in this process, where they go to a worker; false on threads
// that only watch (c10d's watchdog, which may free blocks and query events), and in kStandalone.
bool ThreadIssuesOps();

// The framework op current on this thread, set by the observer (kContext id, 0 none).
void SetThreadContext(uint32_t context);
uint32_t ThreadContext();

// While set, what this thread issues carries kLaunchedWithPrevious: the launch of a graph.
void SetThreadInGraph(bool in_graph);

// Counts something assumed, masked or refused under a stable snake_case name (becomes a warning).
void Count(std::string_view counter, int64_t n = 1);

// Refuses a call by name: one line on stderr the first time, counted always. Returns nothing; the
// caller returns its library's "not supported" code.
void Refuse(const char* function_name);

// Membership of the process group that the framework is working for on this thread. Set by the
// observer library when it is loaded; called at communicator creation. False: not known.
struct GroupInfo {
  char name[128];
  int32_t global_start;
  int32_t global_stride;  // 0: `members` says
  int32_t size;
  int32_t rank;            // in the group
  const int32_t* members;  // global ranks by rank in the group, or null; the thread's until it asks
                           // again
};
using GroupProvider = bool (*)(GroupInfo* info);

// The c10d::ProcessGroupNCCL that is making a communicator on this thread, and for which ranks of
// it; `group` null where none is.
struct GroupAtWork {
  void* group;
  const void* key;  // std::string: a device, or "lower:higher" for two ranks of the group alone
  int32_t pair_rank;
  bool with_itself;
};

}  // namespace prism::shim

// What libprism_observer.so looks up by dlsym; plain C so that no C++ type crosses.
extern "C" {
uint32_t prism_shim_define(uint8_t table, const void* payload, uint32_t bytes);
void prism_shim_set_context(uint32_t context);
uint32_t prism_shim_context();
void prism_shim_marker(uint32_t name, int begin);
void prism_shim_block_event(int is_alloc, uint64_t address, int64_t bytes);
void prism_shim_allocator_stats(const prism::channel::AllocatorStatsBody* stats);
void prism_shim_set_group_provider(prism::shim::GroupProvider provider);
const prism::shim::GroupAtWork* prism_shim_group_at_work();
int prism_shim_mode();
void prism_shim_write(void* target, const void* data, size_t bytes);
// Reads into `out`; how many of the bytes were ever written.
size_t prism_shim_read(void* out, const void* source, size_t bytes);
// The next read of so many device bytes by this thread of which none was written gets these; of no
// bytes: no longer.
void prism_shim_answer_read(const void* value, size_t bytes);
void prism_shim_count(const char* counter);
}
