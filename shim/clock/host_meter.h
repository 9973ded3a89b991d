// What a thread of the program computes outside the shim: its CPU time minus the time between
// entering and leaving the shim (channel::Record::host_ns).
#pragma once

#include <cstdint>

namespace prism::shim {

// Call on entry, before a record. Returns the nanoseconds charged to its op: everything since this
// thread's last charged op; 0 if the op is not charged. At most 2^32 - 1.
uint32_t EnterShim(bool is_charged);

// On the way out.
void LeaveShim();

}  // namespace prism::shim
