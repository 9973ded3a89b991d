// `prism replay GRAPH --edit FILE.toml`: what to change in a job, from a file. kEditFileHelp is its
// grammar, for readers of this header and of --help alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/delta/edit.h"
#include "replayer/replay.h"

namespace prism::launch {

// [[program]] is read by launch/edits/program_edit_file.h, everything else here.
inline constexpr const char* kEditFileHelp =
    "Tables of FILE.toml for --edit, each optional:\n"
    "  [[program]]              another program; one table per change, in their order and before "
    "all\n"
    "                           that follows:\n"
    "  overlap = \"off\"            compute waits for collectives where they are issued; \"on\": "
    "such\n"
    "                             waits go; of = COMMUNICATOR, kind = \"all_gather\"\n"
    "  buckets = \"dp\"             that communicator's, kind as above; merge = N in a row, split "
    "= N\n"
    "                             or bytes = N\n"
    "  recompute = \"none\"         what backward passes compute again is kept; layer = \"layer "
    "1*\",\n"
    "                             bytes = N that a layer and micro-batch keeps more\n"
    "  optimizer = \"sgd\"          adam, sgd, sgd_momentum, lion, lamb, adafactor or muon\n"
    "  offload = \"optimizer\"      states in host memory, or \"activations\" between their "
    "passes;\n"
    "                             prefetch = N pieces ahead, bytes = N of a layer and micro-batch\n"
    "  [kernels.\"cublas*\"]      names in any case, * any text, ? a letter; factor = F,\n"
    "                           microseconds = T or fuse = true: runs of them become one kernel;\n"
    "                           shape = \"MxNxK\" of products, * any; ranks = \"0-7+64\"\n"
    "  [ops]                    \"5:1234\" = 12.5: microseconds of op 1234 of rank 5\n"
    "  [cluster]                \"net.nic_bytes_per_s\" = 2.5e10: any of its parameters\n"
    "  [gpu]                    of = \"b200-8x\": another cluster's GPU, by its data sheet\n"
    "  [precision]              products = \"fp8\": or bf16, fp16, fp32\n"
    "  [algorithms]             dp = \"Tree\": of communicators of that name, \"*\" of all\n"
    "  [placement]              \"3\" = 12: ranks 3 and 12 change places\n"
    "What is left out (kind, layer, ranks) means all; bytes, what the job's shape says. Above the\n"
    "tables, perturb = [\"straggler:5:1.5\"]: perturbations, as --perturb takes them.\n";

struct EditFile {
  // The graph after [[program]]; if set, `edit` applies to it.
  std::optional<graph::Graph> program;
  replayer::Edit edit;
  std::vector<std::string> assumptions;  // one line each: what the edit assumes
  std::vector<std::string> memory;       // one line per edit of [[program]]: its effect on memory
};

// The status of an edit that cannot be applied: the fault is in the file, so kInvalidArgument
// becomes kBadFile.
Status FaultOfEdit(const Status& status, const std::string& path);

// `options` are those of the job that is edited. Every rank or op that a line names must exist, and
// every pattern must match a kernel; no op may be named twice. Factors apply to what kernels take
// on the edited cluster.
Result<EditFile> ReadEditFile(const std::string& path,
                              const graph::Graph& graph,
                              const replayer::ReplayOptions& options);

}  // namespace prism::launch
