// Process groups on libtorch's own ProcessGroupNCCL.
#pragma once

#include "launch/trainer/parallel_groups.h"

namespace prism::launch {

// Makes one ProcessGroupNCCL per group, all on one LoneStore.
BackendFactory NcclBackends();

}  // namespace prism::launch
