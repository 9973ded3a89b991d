// `prism replay GRAPH --edit FILE.toml`: what to change in a job, from a file. kEditFileHelp is its
// grammar, for readers of this header and of --help alike.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/graph.h"
#include "replayer/edit/edit.h"

namespace prism::replayer {
struct ReplayOptions;
}  // namespace prism::replayer

namespace prism::launch {

// [[program]] is read by launch/inputs/program_edit_file.h, everything else here.
inline constexpr const char* kEditFileHelp =
    "Tables of FILE.toml for --edit, each optional:\n"
    "  [[program]]              changes the program; one table per change, applied in order, "
    "before\n"
    "                           all other tables:\n"
    "  overlap = \"off\"            compute waits for collectives where they are issued; \"on\" "
    "removes\n"
    "                             such waits; of = COMMUNICATOR, kind = \"all_gather\"\n"
    "  buckets = \"dp\"             resize that communicator's buckets, kind as above; merge = N "
    "in a\n"
    "                             row, split = N or bytes = N\n"
    "  recompute = \"none\"         keep what backward passes would recompute; layer = \"layer "
    "1*\",\n"
    "                             bytes = N kept more per layer and micro-batch\n"
    "  optimizer = \"sgd\"          adam, sgd, sgd_momentum, lion, lamb, adafactor or muon\n"
    "  offload = \"optimizer\"      keep its states in host memory, or \"activations\" between "
    "passes;\n"
    "                             prefetch = N pieces ahead, bytes = N per layer and micro-batch\n"
    "  [kernels.\"cublas*\"]      kernels by name, ignoring case (* any text, ? a letter); factor "
    "= F,\n"
    "                           microseconds = T or fuse = true (a run of them becomes one "
    "kernel);\n"
    "                           shape = \"MxNxK\" of matrix products, * for any; ranks = "
    "\"0-7+64\"\n"
    "  [ops]                    \"5:1234\" = 12.5: microseconds of op 1234 of rank 5\n"
    "  [cluster]                \"net.nic_bytes_per_s\" = 2.5e10: any parameter of the cluster\n"
    "  [gpu]                    of = \"b200-8x\": the GPU of another cluster, by its data sheet\n"
    "  [precision]              products = \"fp8\": matrix products in fp8, bf16, fp16 or fp32\n"
    "  [algorithms]             dp = \"Tree\": NCCL's algorithm for that communicator, \"*\" for "
    "all\n"
    "  [placement]              \"3\" = 12: ranks 3 and 12 change places; policy = packed, random\n"
    "                           (with seed = N) or fragmented: which nodes the job has\n"
    "If kind, layer or ranks is left out, all are meant; if bytes is left out, it follows from "
    "the\n"
    "job's shape. Above the tables, perturb = [\"straggler:5:1.5\"] takes what --perturb takes.\n";

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
