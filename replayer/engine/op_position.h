// Where a rank is in its program.
#pragma once

#include <cstdint>

namespace prism::replayer {

// A position in a rank's endless program: iteration * program.size() + op.
using OpPosition = int64_t;

}  // namespace prism::replayer
