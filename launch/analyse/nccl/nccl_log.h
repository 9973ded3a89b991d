// What NCCL says of a job under NCCL_DEBUG=INFO: groups, channels, connections, calls, and which
// algorithms it chose.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/analyse/report_tables.h"

namespace prism::launch {

// Whether the file begins like a log with lines of NCCL's.
bool IsNcclLog(const std::string& file);

// Of logs of any ranks, mixed or one file each; lines of others are passed over. kBadFile without
// any line of NCCL's.
Result<TableReport> ReportOfNcclLogs(const std::vector<std::string>& files);

}  // namespace prism::launch
