// What memory is used for.
#pragma once

#include <cstdint>

namespace prism::replayer {

enum class MemoryUse : uint8_t { kParameters, kGradients, kOptimizer, kActivations, kTemporaries };

}  // namespace prism::replayer
