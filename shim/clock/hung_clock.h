// The clock of a rank that waits for what never comes (--on-mismatch hang): it goes on at the
// machine's pace, as it would on the cluster, so that the framework's own watchdogs find the op
// that does not end and fire after their own time-out.
#pragma once

namespace prism::shim {

// Called again and again by the thread that waits: moves the virtual clock by the real time since
// the call before.
void LetTimePass();

// True from the first of these calls on. Then no question is answered any more: what has not ended
// never will.
bool IsHung();

}  // namespace prism::shim
