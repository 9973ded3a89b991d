// Records ranks of a small job as the record pass does, but as many at once as the test likes, with
// real exchange of data between them.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/fragment.h"
#include "launch/emulate/run/run_context.h"

namespace prism::launch {

// A GPT of 8 layers and hidden size 256 with tp 2, pp 4, dp 2: 16 ranks, 4 micro-batches each.
graph::JobSpec TinyJob();

// The job on the H100 preset with the programs of this build. `program`, if given, runs instead of
// prism-workload, with `plants` before the usual arguments.
struct Recording {
  graph::JobSpec job;
  std::string program = {};
  std::vector<std::string> plants = {};
  bool leaves_out_rounds = false;  // that are alike
};

Result<RunContext> MakeTestContext(const Recording& recording);

// Runs the ranks, all at once, and returns their fragments in the order of `ranks`.
Result<std::vector<graph::Fragment>> RecordTogether(const Recording& recording,
                                                    const std::vector<Rank>& ranks);

// The same, but each as if it were the only one.
Result<std::vector<graph::Fragment>> RecordAlone(const Recording& recording,
                                                 const std::vector<Rank>& ranks);

}  // namespace prism::launch
