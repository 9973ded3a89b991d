// Records about device memory, from either account: that of the virtual device (memory.cc) or that
// of a real GPU (gpu/real_memory.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/channel/messages.h"

namespace prism::shim {

// kSegmentAlloc, kSegmentFree or kOutOfMemory; `used_bytes` is the account afterwards.
void EmitSegment(channel::RecordKind kind, uintptr_t address, size_t bytes, int64_t used_bytes);

// kOutsideAlloc for what AccountOutside (memory.h) has taken.
void EmitOutside(const char* what, uint32_t comm, int64_t bytes, int64_t used_bytes);

}  // namespace prism::shim
