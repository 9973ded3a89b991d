// Graphs → replay formats of other tools. In this folder, beside import, because both directions of
// a format share its tables and because it needs nothing above graph/: the caller fixes the times
// that a graph leaves to the cost model. What a format cannot express is counted in the notes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "slicer/tasks/notes.h"

namespace prism::slicer {

struct ExportResult {
  Notes notes;
  std::vector<std::string> files;
  int64_t tasks = 0;  // written, over all ranks
  int64_t bytes = 0;
};

}  // namespace prism::slicer
