// `prism replay GRAPH --edit FILE.toml`: what to change in a job, from a file.
//
//   perturb = ["straggler:5:1.5"]        # as --perturb, beside those of the command line
//
//   [kernels."*gemm*"]                   # kernels whose name fits: * for any text, ? for a letter
//   factor = 0.5                         # or microseconds = 12.5
//   ranks = "0-7+64"                     # all if left out
//
//   [ops]
//   "5:1234" = 12.5                      # microseconds of op 1234 of rank 5, as prism graph shows
//                                        # numbers them
//   [cluster]
//   "net.nic_bytes_per_s" = 2.5e10       # parameters of the cluster: link speeds, latencies, ...
//
//   [algorithms]
//   dp = "Tree"                          # of communicators of that name; "*": of all
//
//   [placement]
//   "3" = 12                             # ranks 3 and 12 change places
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/delta/edit.h"
#include "replayer/replay.h"

namespace prism::launch {

// `options` are those of the job that is edited. Every rank or op that a line names must exist, and
// every pattern must fit a kernel; no op may be named twice.
Result<replayer::Edit> ReadEditFile(const std::string& path,
                                    const graph::Graph& graph,
                                    const replayer::ReplayOptions& options);

}  // namespace prism::launch
