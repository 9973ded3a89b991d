// What time it is for the program. In kEmulate the clock shows the virtual host time of the rank:
// the last answer plus the host cost of what was issued since; it does not follow the machine's own
// clock. In the other modes clocks are real and these calls do nothing. Thread-safe, no locks.
#pragma once

#include <cstdint>

namespace prism::shim {

// Called once by the session, before the program's main: virtual time 0 is "now" of the real clock.
void StartVirtualClock(bool virtual_time);

void AdvanceVirtualClock(int64_t duration_ns);  // host cost of an issued op, a sleep
void SetVirtualClock(int64_t host_time_ns);     // an answer; never moves the clock back

// Virtual host time since the start, nanoseconds.
int64_t VirtualNow();

}  // namespace prism::shim
