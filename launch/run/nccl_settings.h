// NCCL's own settings in the environment, which a real run would heed.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace prism::launch {

// Names those that are set ("NCCL_ALGO=Tree"): collectives are costed as NCCL chooses without them.
// Settings of what it prints are no matter. `environment` ends with a null pointer, as environ(7).
void WarnOfNcclSettings(const char* const* environment, std::vector<graph::Warning>* warnings);

}  // namespace prism::launch
