// Reads a table of measured kernels: CSV with the columns kind, type, m, n, k, batch, seconds and
// source, as experiments/gpu writes it; replayer/cost/measured_kernels.h says what they mean.
#pragma once

#include <string>

#include "graph/base/input_hashes.h"
#include "graph/base/status.h"
#include "graph/graph.h"
#include "graph/job/cluster.h"

namespace prism::launch {

// Adds the rows of the file to the parameters of `cluster`, marked as measured, replacing those of
// the same kernel. The file is also noted in `read`, if not null. kBadFile, naming the line, for a
// row that cannot be used or repeats the kernel of another.
Status UseMeasuredKernels(const std::string& path,
                          graph::ClusterSpec* cluster,
                          InputHashes* read = nullptr);

// The same for a graph: kBadFile also for a kind that is no op of any kernel, and what is used and
// not is among the graph's assumptions and warnings.
Status UseMeasuredKernels(const std::string& path, graph::Graph* graph);

}  // namespace prism::launch
