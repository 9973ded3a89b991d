// The plan of a run: options → job, cluster, roles and ranks.
#pragma once

#include "graph/base/status.h"
#include "launch/emulate/run/run_context.h"
#include "launch/inputs/options.h"

namespace prism::launch {

// Everything that is known without MPI, the same in all processes; `paths` stays empty. Fails on
// all options that can be refused before anything is recorded.
Result<RunContext> PlanRun(Options options);

}  // namespace prism::launch
