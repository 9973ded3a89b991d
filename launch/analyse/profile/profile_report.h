// Profiles of torch.profiler or Nsight Systems as a report, of one rank or of many, and two of them
// side by side.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/analyse/profile/rank_profile.h"
#include "launch/analyse/report_tables.h"

namespace prism::launch {

// Files may be gzipped; one is in memory at a time.
Result<TableReport> ReportOfProfiles(const std::vector<std::string>& files,
                                     const ProfileChoice& choice);

// What took how long in either, by kind, kernel and op; the largest differences first.
Result<TableReport> CompareProfiles(const std::string& left,
                                    const std::string& right,
                                    const ProfileChoice& choice);

}  // namespace prism::launch
