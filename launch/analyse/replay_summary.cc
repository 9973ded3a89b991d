#include "launch/analyse/replay_summary.h"

#include "launch/plan/replay_range.h"
#include "replayer/ineffective_perturbations.h"
#include "replayer/replay.h"

namespace prism::launch {

Result<replayer::Summary> SummaryOf(const graph::LoadedGraph& loaded,
                                    const replayer::ReplayOptions& options,
                                    const replayer::ReplayResult& result,
                                    Warns warns) {
  PRISM_ASSIGN_OR_RETURN(const ReplayRange range,
                         RangeBySpread(loaded.graph, options, result.steady_iteration_ns()));
  replayer::SummaryInput input;
  input.graph = &loaded.graph;
  input.result = &result;
  input.low_ns = range.low_ns;
  input.high_ns = range.high_ns;
  input.graph_bytes = loaded.file_bytes;
  if (warns == Warns::kOfNoEffect) {
    PRISM_ASSIGN_OR_RETURN(input.warnings, replayer::WarnOfNoEffect(loaded.graph, options, result));
  }
  return replayer::Summarise(input);
}

Result<replayer::Summary> ReplaySummary(const graph::LoadedGraph& loaded,
                                        const replayer::ReplayOptions& options,
                                        Warns warns) {
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result,
                         replayer::Replay(loaded.graph, options));
  return SummaryOf(loaded, options, result, warns);
}

}  // namespace prism::launch
