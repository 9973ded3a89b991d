// What a thread of the program computes outside of shim and observer (channel::Record::host_ns):
// the time from leaving them to entering them again, by a clock that is read without a system call,
// minus what reading it and libtorch's calls of the observer take, both of which are measured once
// a process; at most the thread's CPU time, so that a wait takes none.
#pragma once

#include <cstdint>

#include "shim/channel/messages.h"

namespace prism::shim {

// Whether anything is measured from here on. Measures what a reading of the clock adds.
void StartHostMeter(bool measures);

// The calling thread is in shim or observer from the first to the last of calls that nest.
void EnterShim();
void LeaveShim();

class InShim {
 public:
  InShim() { EnterShim(); }
  ~InShim() { LeaveShim(); }
  InShim(const InShim&) = delete;
  InShim& operator=(const InShim&) = delete;
};

// A framework op on so many tensors begins on this thread. Calling the observer for it took the
// thread `call_ns`, and `tensor_ns` for each of them, outside of an InShim.
void CountFrameworkOp(int64_t tensors);
void SetObserverCallNs(int64_t call_ns, int64_t tensor_ns);

// Charges an op with a host cost everything since this thread's last such op: framework_ops, at
// most 255, and, if it is measured, host_ns, at least 1.
void ChargeHost(channel::Record* record);

// All that the calling thread has computed outside so far, nanoseconds.
int64_t OutsideNs();

}  // namespace prism::shim
