// Why an iteration is as long as it is: what `prism replay` and `prism report` print beside the
// summary when they are asked to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/valid_graph.h"
#include "launch/verbs/verb.h"
#include "replayer/replay.h"
#include "replayer/report/summary.h"

namespace prism::launch {

// --costs, --critical-path and --find-straggler, as lines of the verb's table.
std::vector<VerbOption> ExplanationOptions();

// Whether a summary looks for perturbations without effect, which takes separate replays.
enum class Warns : uint8_t { kNot, kOfNoEffect };

// That of a run which departs from the graph in nothing.
Result<replayer::Summary> ReplaySummary(const graph::LoadedGraph& loaded,
                                        const replayer::ReplayOptions& options,
                                        Warns warns);

// The summary of the replay, and what the command line asks for beside it. As JSON the summary
// alone is summary.json; with more it is one of the keys summary, costs, critical_path and
// straggler.
Result<std::string> SummaryAndExplanation(const VerbArguments& arguments,
                                          const graph::LoadedGraph& loaded,
                                          const replayer::ReplayOptions& options);

}  // namespace prism::launch
