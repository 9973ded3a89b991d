// The interface between libprism_observer.so, which uses libtorch, and the preloaded library, which
// must not: what the observer looks up by dlsym, in plain C so that no C++ type crosses it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/channel/messages.h"

namespace prism::shim {

// Membership of the process group that the framework is working for on this thread. Set by the
// observer library when it is loaded; called at communicator creation. False: not known.
struct GroupInfo {
  char name[128];
  const char* unique;  // unique to this group, equal on all members, or null; lives as `members`
  uint32_t number;     // in the order in which this process created its groups; 0: not known
  int32_t global_start;
  int32_t global_stride;  // 0: `members` says
  int32_t size;
  int32_t rank;            // in the group
  const int32_t* members;  // global ranks by rank in the group, or null; valid until the thread's
                           // next call
  bool of_parent;          // `members` are ranks of the communicator that is being split
  uint64_t place;          // of a communicator for two ranks of a group: which two, of a group that
                           // reaches how far; equal in other groups of the same family; else 0
};
using GroupProvider = bool (*)(GroupInfo* info);

// The c10d::ProcessGroupNCCL that is creating a communicator on this thread, and for which of its
// ranks; `group` is null if none is.
struct GroupAtWork {
  void* group = nullptr;
  // In the order in which the process created its groups, from 1; 0: not known.
  uint32_t number = 0;
  // std::string: a device, or "lower:higher" for only two ranks of the group.
  const void* key = nullptr;
  int32_t pair_rank = 0;
  bool with_itself = false;
  bool is_second = false;  // a c10d::nccl2::ProcessGroupNCCL, which has no key
  // Of a child that is being made of it: std::vector<int>, its ranks in the group, or null; and
  // c10::intrusive_ptr<c10d::Backend::Options>.
  const void* ranks = nullptr;
  const void* options = nullptr;
};

}  // namespace prism::shim

extern "C" {
uint32_t prism_shim_define(uint8_t table, const void* payload, uint32_t bytes);
void prism_shim_set_context(uint32_t context);
uint32_t prism_shim_context();
void prism_shim_marker(uint32_t name, int begin, int in_backward);
// For the check of a program, while it is recorded: a marker's name.
void prism_shim_note(uint32_t name);
// A framework op in a backward pass begins or ends on this thread.
void prism_shim_backward_op(int begin);
// An optimizer's step likewise.
void prism_shim_optimizer_step(int begin);
// The thread is in the observer from begin = 1 to 0, which is no time of the program.
void prism_shim_inside(int begin);
void prism_shim_framework_op(int64_t tensors);
// CPU time of the thread outside of shim and observer so far; 0 if that is not measured.
int64_t prism_shim_outside_ns();
void prism_shim_set_observer_call_ns(int64_t ns, int64_t tensor_ns);
void prism_shim_block_event(int is_alloc, uint64_t address, int64_t bytes);
void prism_shim_allocator_stats(const prism::channel::AllocatorStatsBody* stats);
void prism_shim_set_group_provider(prism::shim::GroupProvider provider);
const prism::shim::GroupAtWork* prism_shim_group_at_work();
int prism_shim_mode();
// Whether the process has had the device do anything.
int prism_shim_has_worked();
void prism_shim_write(void* target, const void* data, size_t bytes);
// Device bytes count as never written.
void prism_shim_forget(void* target, size_t bytes);
// Reads into `out`; returns how many of the bytes were ever written.
size_t prism_shim_read(void* out, const void* source, size_t bytes);
// This thread's next read of 4 or 8 device bytes, not all of them ever written, returns this
// number; null cancels that.
void prism_shim_answer_read(const int64_t* number);
// "code" or "code:detail"; details of one code are one warning.
void prism_shim_count(const char* counter);
}
