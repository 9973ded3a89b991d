// The clock of a rank that waits for something that never comes (--on-mismatch hang): it runs at
// the machine's pace, as it would on the cluster, so that the framework's own watchdogs find the op
// that does not end and fire after their own time-out.
#pragma once

namespace prism::shim {

// Called repeatedly by the waiting thread: advances the virtual clock by the real time since the
// previous call.
void LetTimePass();

// True from the first of these calls on. No query is answered any more then: what has not ended
// never will.
bool IsHung();

}  // namespace prism::shim
