// Which ranks run in the sandbox, are shown live and are traced: options and roles → RunContext.
#pragma once

#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "launch/emulate/run/run_context.h"

namespace prism::launch {

// Refuses options about ranks that have no effect together: outputs of sandbox ranks without one, a
// list of traced ranks without a trace.
Status CheckRankOptions(const Options& options);

// Fills sandbox_ranks, log_ranks and traced_ranks from options, job and plan. kInvalidArgument for
// a list that names none of the job's ranks, stages or roles. Sandbox ranks that the user named are
// shown live; the default ones only write their logs.
Status ChooseRanks(RunContext* context);

// Those of --record-ranks, ascending. kInvalidArgument where nothing of a program is recorded, for
// a rank that the job does not have, and for more than may have roles.
Result<std::vector<Rank>> RanksToRecord(const RunContext& context);

// Before the layout of a program is known: refuses what can be refused without it, and makes the
// ranks that are given by number sandbox ranks.
Status ChooseNumberedRanks(RunContext* context);

}  // namespace prism::launch
