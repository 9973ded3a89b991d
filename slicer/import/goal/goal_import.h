// GOAL schedules, text or binary → a graph: calc becomes a kernel of fixed time on the stream of
// its cpu, a tag becomes a communicator, and the cluster determines the cost of messages.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "slicer/import/importer.h"

namespace prism::slicer {

// Imports one file; its first bytes say which form it has.
Result<ImportResult> ImportGoal(const std::string& path, const ImportOptions& options);

// The same from memory; `file` for messages.
Result<ImportResult> ImportGoalBytes(std::string_view bytes,
                                     const std::string& file,
                                     const ImportOptions& options);

}  // namespace prism::slicer
