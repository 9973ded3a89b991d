// Constants shared by the channel and GPU code. nvcc compiles this header, and messages.h includes
// it.
#pragma once

#include <cstdint>

namespace prism::channel {

// How many streams of a real GPU can have holds (shim/gpu/hold_logic.h).
inline constexpr uint32_t kHoldStreams = 1024;

}  // namespace prism::channel
