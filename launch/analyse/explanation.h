// Why an iteration is as long as it is: what `prism replay` and `prism report` print in addition to
// the summary, on request.
#pragma once

#include <string>

#include "graph/base/status.h"
#include "graph/validate/valid_graph.h"
#include "launch/inputs/options.h"
#include "replayer/report/summary.h"

namespace prism::replayer {
struct ReplayOptions;
}  // namespace prism::replayer

namespace prism::launch {

struct ExplanationChoice {
  bool costs = false;          // what determined the times of kernels
  bool critical_path = false;  // the longest path through all ranks, by kind of time
  bool straggler = false;      // the slow rank by its symptoms
};

// A replay's summary and the chosen explanations. As JSON, the summary without any is
// summary.json; otherwise it is under one of the keys summary, costs, critical_path and straggler.
Result<std::string> SummaryAndExplanation(const graph::LoadedGraph& loaded,
                                          const replayer::ReplayOptions& options,
                                          const replayer::Summary& summary,
                                          const ExplanationChoice& choice,
                                          OutputFormat format);

}  // namespace prism::launch
