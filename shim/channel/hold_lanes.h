// What the channel and code for a GPU agree on. nvcc reads this header, and messages.h includes it.
#pragma once

#include <cstdint>

namespace prism::channel {

// Streams of a real GPU that holds can be on (shim/device/hold_logic.h).
inline constexpr uint32_t kHoldLanes = 1024;

}  // namespace prism::channel
