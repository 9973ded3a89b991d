// A memory snapshot as a report: what is in use and free, the peak by what allocated it, and what
// other settings of the allocator would have taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/analyse/memory/snapshot_file.h"
#include "launch/analyse/report_tables.h"

namespace prism::launch {

struct SnapshotChoice {
  int64_t device = -1;                // -1: that of the most reserved bytes
  std::vector<std::string> settings;  // to simulate besides the usual ones
};

// kInvalidArgument for a device that the snapshot lacks, or settings that torch does not know.
Result<TableReport> ReportOfSnapshot(const SnapshotFile& file,
                                     const SnapshotChoice& choice,
                                     const std::string& name);

}  // namespace prism::launch
