// What a thread of the program computes outside of the shim: its CPU time less what it spent
// between entering the shim and leaving it (channel::Record::host_ns).
#pragma once

#include <cstdint>

namespace prism::shim {

// On the way in, before a record. Returns the nanoseconds that its op is charged with: all
// since this thread's last op that was; 0 where the op is not charged. At most 2^32 - 1.
uint32_t EnterShim(bool is_charged);

// On the way out.
void LeaveShim();

}  // namespace prism::shim
