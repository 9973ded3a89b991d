// Lists of ranks as options name them: numbers, ranges (3-5), first, last, stage:K, role:NAME,
// auto; separated by commas. Or none, which must be the only entry.
#pragma once

#include <string>
#include <vector>

#include "graph/base/ids.h"
#include "graph/base/status.h"
#include "graph/job/job.h"
#include "slicer/plan.h"

namespace prism::launch {

// Ascending, without duplicates. `auto` is the lowest rank of the first, a middle and the last
// pipeline stage; `stage:K` the lowest rank of stage K; `role:NAME` the role's representative (a
// dash means a space). kInvalidArgument naming `option` and the part that is wrong.
Result<std::vector<Rank>> ResolveRankList(const std::string& option,
                                          const std::string& list,
                                          const graph::JobSpec& job,
                                          const slicer::SlicePlan& plan);

// The ranks of the list that can be resolved without a layout: numbers, ranges, first and last.
// Other entries are skipped.
Result<std::vector<Rank>> NumberedRanks(const std::string& option,
                                        const std::string& list,
                                        const graph::JobSpec& job);

}  // namespace prism::launch
