// NCCL's own settings in the environment, which a real run would obey.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace prism::launch {

// Warns of those that are set ("NCCL_ALGO=Tree"): collectives are costed as NCCL would choose
// without them. Settings of what it prints do not matter. `environment` ends with a null pointer,
// as in environ(7).
void WarnOfNcclSettings(const char* const* environment, std::vector<graph::Warning>* warnings);

}  // namespace prism::launch
