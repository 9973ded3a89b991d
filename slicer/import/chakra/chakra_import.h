// Chakra execution traces, one file a rank → a graph.
//
// A compute node is a kernel of its duration; nodes of one stream (attribute "stream") run in
// order, without that attribute all compute nodes of a GPU, all nodes of its CPU and all
// collectives do, which is ASTRA-sim's rule. Collectives carry what they move and are costed by the
// cluster: their durations hold waiting and are dropped. Nodes come by ascending id where nothing
// else orders them.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "slicer/import/importer.h"
#include "slicer/import/source_files.h"

namespace prism::slicer {

struct ChakraOptions {
  std::string groups_file;    // ASTRA-sim's communicator groups; "" none
  std::vector<int64_t> dims;  // ranks along each dimension of an ASTRA-sim network; empty unknown
};

// The files of ranks 0, 1, ..., named PREFIX.<rank>.et; or one file for options.target_gpus ranks
// that all do the same. Files may be packed by gzip (PREFIX.<rank>.et.gz).
Result<ImportResult> ImportChakra(const std::vector<std::string>& files,
                                  const ImportOptions& options,
                                  const ChakraOptions& chakra);

// The same from memory, by rank.
Result<ImportResult> ImportChakraBytes(const std::vector<TraceSource>& traces,
                                       const ImportOptions& options,
                                       const ChakraOptions& chakra);

}  // namespace prism::slicer
