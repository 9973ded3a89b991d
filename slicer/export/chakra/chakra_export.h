// A graph → Chakra execution traces as ASTRA-sim reads them: PREFIX.<rank>.et for every rank,
// PREFIX.groups.json with the members of the communicators of collectives (its
// --comm-group-configuration), and
// PREFIX.network.yml with the cluster's links as far as that format can express them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/base/status.h"
#include "slicer/export/exporter.h"
#include "slicer/import/astra/network_file.h"

namespace prism::slicer {

// Every duration must be fixed. All files are written or none.
Result<ExportResult> ExportChakra(const graph::Graph& graph, const std::string& prefix);

// The nodes of the cluster and the links between them, as a send between two ranks sees them. Ranks
// that need more than one node but do not fill their nodes get a single dimension, the slower one,
// which is noted.
AstraNetwork NetworkOf(const graph::ClusterSpec& cluster, uint32_t ranks, Notes* notes);

// Communicators by their id in the graph, numbered as they are first used by collectives (groups)
// and by messages (tags), so that an export of what was imported has the same numbers.
struct ChakraNumbers {
  std::map<uint32_t, int64_t> groups;
  std::map<uint32_t, int64_t> tags;
};

// The trace of one rank. `numbers` are those of all ranks; the number of trace nodes is added to
// `nodes`.
Result<std::string> ChakraTrace(
    const graph::Graph& graph, Rank rank, ChakraNumbers* numbers, Notes* notes, int64_t* nodes);

}  // namespace prism::slicer
