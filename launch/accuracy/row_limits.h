// Sizes beyond which a published row holds a slip of the pen rather than a run.
#pragma once

#include "graph/base/status.h"
#include "graph/job.h"

namespace prism::launch {

// kRunFailed with the reason to skip the row, which names the column and its limit
// (or that no heads fit). What is left
// is predicted in bounded time and memory.
Status CheckLimits(const graph::JobSpec& job);

}  // namespace prism::launch
