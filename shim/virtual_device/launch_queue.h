// How far the device may be behind the host: what decides whether the caching allocator gets back a
// block that another stream used (tensor.record_stream), and so how much it reserves.
//
// Of what was issued, that is over for which the host has waited, and that which the launch queue
// has pushed out: a launch blocks where some 1,000 are pending on its stream (measured, e.g. in
// NVIDIA's developer forum, thread 68937). Neither needs a time, so that recording sees it as well;
// a host that is not kept busy gets its blocks back earlier. Thread-safe.
#pragma once

#include <cstdint>

namespace prism::shim {

// Called for each op that is issued; they are numbered from 1, streams taken together.
void CountIssuedOp();

// The number of the last one.
uint64_t LastIssuedOp();

// The host has waited for the op of that number. What was issued before counts as over, too: on
// another stream it usually is.
void NoteHostWait(uint64_t op);

// Whether the device may not have reached that op yet.
bool MayBePending(uint64_t op);

}  // namespace prism::shim
