// Why an iteration is as long as it is: what `prism replay` and `prism report` print beside the
// summary when they are asked to.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/valid_graph.h"
#include "launch/options/options.h"
#include "replayer/replay.h"

namespace prism::launch {

struct ExplanationChoice {
  bool costs = false;          // what decided the times of kernels
  bool critical_path = false;  // the longest path through all ranks, by kind of time
  bool straggler = false;      // the slow rank by its symptoms
};

// The summary of the replay, and what is chosen beside it. As JSON the summary alone is
// summary.json; with more it is one of the keys summary, costs, critical_path and straggler.
Result<std::string> SummaryAndExplanation(const graph::LoadedGraph& loaded,
                                          const replayer::ReplayOptions& options,
                                          const ExplanationChoice& choice,
                                          OutputFormat format);

}  // namespace prism::launch
