#include "graph/validate/validate.h"

#include "graph/validate/validate_internal.h"

namespace prism::graph {

Validation Validate(const Graph& graph, const ValidateOptions& options) {
  internal::FaultList faults(options.max_faults);
  internal::CheckTables(graph, faults);
  if (faults.empty()) {
    internal::CheckCommunicators(graph, faults);
    internal::CheckMarkers(graph, faults);
    internal::CheckCollectives(graph, faults);
    internal::CheckPeerTransfers(graph, faults);
  }
  // A graph with unmatched ops stalls anyway; the faults found so far explain it better than the
  // stall.
  if (faults.empty()) {
    internal::CheckExecution(graph, options.buffered_bytes, faults);
  }
  return std::move(faults).Take();
}

}  // namespace prism::graph
