#include "launch/run/interval.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/validate.h"
#include "launch/process/interrupt.h"

namespace prism::launch {
namespace {

constexpr size_t kShownFaults = 3;

}  // namespace

Status RefuseInvalid(const graph::Graph& graph, const SourceLines& source) {
  const graph::Validation validation = graph::Validate(graph);
  if (validation.ok()) {
    return OkStatus();
  }
  std::string text =
      fmt::format("the graph is not valid, {}:", FormatCounted(validation.fault_count, "fault"));
  for (size_t i = 0; i < std::min(kShownFaults, validation.faults.size()); ++i) {
    text += fmt::format("\n  {}: {}", validation.faults[i].rule, validation.faults[i].message);
    if (i == 0 && source != nullptr) {
      for (const auto& [rank, op] : validation.faults[i].ops) {
        text += source(rank, op);
      }
    }
  }
  return RunFailed(text);
}

Result<IterationInterval> ReplayInterval(const graph::Graph& graph,
                                         const replayer::ReplayOptions& options) {
  const double compute = graph.cluster.parameters.Value("spread.compute");
  const double comm = graph.cluster.parameters.Value("spread.comm");
  IterationInterval interval;
  for (const double side : {-1.0, 1.0}) {
    PRISM_RETURN_IF_ERROR(InterruptStatus());
    replayer::ReplayOptions scaled = options;
    scaled.traced.clear();
    scaled.breakdown = false;
    scaled.compute_scale = options.compute_scale * (1 + side * compute);
    scaled.comm_scale = options.comm_scale * (1 + side * comm);
    PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result, replayer::Replay(graph, scaled));
    (side < 0 ? interval.low_ns : interval.high_ns) = result.steady_iteration_ns();
  }
  return interval;
}

}  // namespace prism::launch
