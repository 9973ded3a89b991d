// Reads a table of measured kernels: CSV with the columns kind, type, m, n, k, batch, seconds and
// source, as experiments/gpu writes it; replayer/cost/measured_kernels.h says what they mean.
#pragma once

#include <string>

#include "graph/base/input_hashes.h"
#include "graph/base/status.h"
#include "graph/cluster.h"

namespace prism::launch {

// Puts the rows of the file among the parameters of `cluster`, in place of those of the same
// kernel, marked measured. What was read goes into `read` as well, if there is one. kBadFile,
// naming the line, for a row that cannot be used or has the kernel of another.
Status UseMeasuredKernels(const std::string& path,
                          graph::ClusterSpec* cluster,
                          InputHashes* read = nullptr);

}  // namespace prism::launch
