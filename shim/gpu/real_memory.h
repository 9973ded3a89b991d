// The account of a real device's memory: implements shim/virtual_device/memory.h and
// device_memory.h for addresses that the real allocator returned. No contents are stored here; the
// real device does the copies.
#pragma once

namespace prism::shim {

// What the real device returned for the next allocation that this thread makes on the virtual
// device; nullptr: refused, the device is full.
void TellAllocation(void* real);

}  // namespace prism::shim
