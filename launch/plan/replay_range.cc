#include "launch/plan/replay_range.h"

#include <algorithm>

#include "launch/process/interrupt.h"
#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"

namespace prism::launch {

Result<ReplayRange> RangeBySpread(const graph::Graph& graph,
                                  const replayer::ReplayOptions& options,
                                  DurationNs iteration_ns) {
  const double compute = graph.cluster.parameters.Value("spread.compute");
  const double comm = graph.cluster.parameters.Value("spread.comm");
  ReplayRange range = {iteration_ns, iteration_ns};
  for (const double side : {-1.0, 1.0}) {
    PRISM_RETURN_IF_ERROR(InterruptStatus());
    replayer::ReplayOptions scaled = options;
    scaled.traced.clear();
    scaled.breakdown = false;
    scaled.compute_scale = options.compute_scale * (1 + side * compute);
    scaled.comm_scale = options.comm_scale * (1 + side * comm);
    PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result, replayer::Replay(graph, scaled));
    range.low_ns = std::min(range.low_ns, result.steady_iteration_ns());
    range.high_ns = std::max(range.high_ns, result.steady_iteration_ns());
  }
  return range;
}

}  // namespace prism::launch
