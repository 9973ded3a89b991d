// Graphs → replay formats of others. Here, beside import, because both directions of a format
// share its tables and because it needs nothing above graph/: times that a graph leaves to the cost
// model are fixed by the caller. What a format cannot hold is counted in the notes.
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
