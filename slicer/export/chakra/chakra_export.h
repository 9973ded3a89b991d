// A graph → Chakra execution traces as ASTRA-sim reads them: PREFIX.<rank>.et for every rank, and
// PREFIX.groups.json with the members of every communicator (its --comm-group-configuration).
#pragma once

#include <string>

#include "graph/base/status.h"
#include "slicer/export/exporter.h"

namespace prism::slicer {

// Every duration must be fixed.
Result<ExportResult> ExportChakra(const graph::Graph& graph, const std::string& prefix);

// The trace of one rank, and how many nodes it has.
Result<std::string> ChakraTrace(const graph::Graph& graph, Rank rank, Notes* notes, int64_t* nodes);

}  // namespace prism::slicer
