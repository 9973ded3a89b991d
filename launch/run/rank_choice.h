// Which ranks run in the sandbox, are shown live and are traced: options and roles → RunContext.
#pragma once

#include "graph/base/status.h"
#include "launch/run/run_context.h"

namespace prism::launch {

// Fills sandbox_ranks, log_ranks and traced_ranks from options, job and plan. kInvalidArgument for
// a list that names none of the job's ranks, stages or roles. Who names sandbox ranks wants to see
// them; the default ones keep to their logs.
Status ChooseRanks(RunContext* context);

// Before the layout of a program is known: refuses what can be refused without it, and takes the
// ranks that are numbered as sandbox ranks.
Status ChooseNumberedRanks(RunContext* context);

}  // namespace prism::launch
