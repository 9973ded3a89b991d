// The account of a real device's memory: what shim/cuda/memory.h and device_memory.h say of the
// virtual one, for addresses that the real allocator gave. Nothing is stored here; copies are the
// real device's.
#pragma once

namespace prism::shim {

// What the next allocation that the virtual device is told of by this thread has got from the real
// one; nullptr: it was refused, and the device is full.
void TellAllocation(void* real);

}  // namespace prism::shim
