#include "launch/run/valid_graph.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/validate.h"

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

}  // namespace prism::launch
