// What the session needs of the counters (Count and Refuse in session.h).
#pragma once

namespace prism::shim {

// Sends the totals that the worker does not know yet.
void EmitCounters();

// Around a fork.
void LockCounters();
void UnlockCounters();

}  // namespace prism::shim
