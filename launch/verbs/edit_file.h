// `prism replay GRAPH --edit FILE.toml`: what to change in a job, from a file.
//
//   perturb = ["straggler:5:1.5"]        # as --perturb, beside those of the command line
//
//   [[program]]                          # another program, see launch/verbs/program_edit_file.h:
//   overlap = "off"                      # in the order of the file, before all that follows
//   of = "dp"
//
//   [kernels."cublas*"]                  # kernels whose name fits in any case: * for any text,
//                                        # ? for a letter
//   factor = 0.5                         # or microseconds = 12.5, or fuse = true: runs of them on
//                                        # a stream become one
//   shape = "12288x2048x*"               # only products of these m, n and k; * for any
//   ranks = "0-7+64"                     # all if left out
//
//   [ops]
//   "5:1234" = 12.5                      # microseconds of op 1234 of rank 5, as prism graph shows
//                                        # numbers them
//   [cluster]
//   "net.nic_bytes_per_s" = 2.5e10       # parameters of the cluster: link speeds, latencies, ...
//
//   [gpu]
//   of = "b200-8x"                       # another cluster's GPU, by its data sheet
//
//   [precision]
//   products = "fp8"                     # of matrix products: fp8, bf16, fp16, fp32
//
//   [algorithms]
//   dp = "Tree"                          # of communicators of that name; "*": of all
//
//   [placement]
//   "3" = 12                             # ranks 3 and 12 change places
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/delta/edit.h"
#include "replayer/replay.h"

namespace prism::launch {

struct EditFile {
  // What [[program]] makes of the graph; `edit` is of it then.
  std::optional<graph::Graph> program;
  replayer::Edit edit;
  std::vector<std::string> assumptions;  // one line each: what the edit takes for granted
  std::vector<std::string> memory;       // one line an edit of [[program]]: what it does to it
};

// Of an edit that cannot be applied: what the file says is wrong, so kInvalidArgument is kBadFile.
Status FaultOfEdit(const Status& status, const std::string& path);

// `options` are those of the job that is edited. Every rank or op that a line names must exist, and
// every pattern must fit a kernel; no op may be named twice. Factors are of what kernels take on
// the cluster as edited.
Result<EditFile> ReadEditFile(const std::string& path,
                              const graph::Graph& graph,
                              const replayer::ReplayOptions& options);

}  // namespace prism::launch
