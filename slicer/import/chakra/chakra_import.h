// Chakra execution traces, one file per rank → a graph.
//
// A compute node is a kernel of its duration; nodes of one stream (attribute "stream") run in
// order. Without that attribute, all compute nodes of a GPU, all nodes of its CPU and all
// collectives each run in order, which is ASTRA-sim's rule. Collectives carry what they move and
// are costed by the cluster: their durations include waiting and are dropped. Where nothing else
// orders nodes, ids do.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "slicer/import/importer.h"
#include "slicer/import/source_files.h"

namespace prism::slicer {

// What compute nodes take that say their work: num_ops at the lower of a peak rate and what the
// memory gives for num_ops on tensor_size bytes, which is ASTRA-sim's roofline.
struct ChakraRoofline {
  double flops_per_s = 0;  // 0: they take no time
  double bytes_per_s = 0;
  DurationNs shortest_ns = 0;  // of a node
  bool of_all = false;         // also of nodes that have a duration, and only with tensor_size
  std::string source;          // for the note
};

struct ChakraOptions {
  std::string groups_file;    // ASTRA-sim's communicator groups; "": none
  std::vector<int64_t> dims;  // ranks along each dimension of an ASTRA-sim network; empty: unknown
  ChakraRoofline roofline = {};
};

// The files of ranks 0, 1, ..., named PREFIX.<rank>.et; or one file for options.target_gpus ranks
// that all do the same. Files may be gzipped (PREFIX.<rank>.et.gz).
Result<ImportResult> ImportChakra(const std::vector<std::string>& files,
                                  const ImportOptions& options,
                                  const ChakraOptions& chakra);

// The same from memory, by rank.
Result<ImportResult> ImportChakraBytes(const std::vector<TraceSource>& traces,
                                       const ImportOptions& options,
                                       const ChakraOptions& chakra);

}  // namespace prism::slicer
