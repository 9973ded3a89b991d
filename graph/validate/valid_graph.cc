#include "graph/validate/valid_graph.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/file.h"

namespace prism::graph {
namespace {

constexpr size_t kShownFaults = 3;

// Unless there is one with that code; they stay ordered by code.
void AddWarning(const Warning& warning, std::vector<Warning>* warnings) {
  const auto place = std::ranges::lower_bound(*warnings, warning.code, {}, &Warning::code);
  if (place == warnings->end() || place->code != warning.code) {
    warnings->insert(place, warning);
  }
}

}  // namespace

std::string ShownFaults(const Validation& validation, const SourceLines& source) {
  std::string text = FormatCounted(validation.fault_count, "fault") + ":";
  for (size_t i = 0; i < std::min(kShownFaults, validation.faults.size()); ++i) {
    text += fmt::format("\n  {}: {}", validation.faults[i].rule, validation.faults[i].message);
    if (i == 0 && source != nullptr) {
      for (const auto& [rank, op] : validation.faults[i].ops) {
        text += source(rank, op);
      }
    }
  }
  return text;
}

Validation ValidateBuffered(const Graph& graph, size_t max_faults) {
  ValidateOptions options = {.max_faults = max_faults};
  Validation strict = Validate(graph, options);
  if (strict.ok()) {
    return strict;
  }
  options.buffered_bytes =
      static_cast<int64_t>(graph.cluster.parameters.ValueOr("p2p.eager_bytes", 0));
  Validation buffered = Validate(graph, options);
  if (buffered.ok()) {
    buffered.needed_buffer = std::move(strict.faults.front().message);
  }
  return buffered;
}

Status RefuseInvalid(Graph* graph, const SourceLines& source) {
  const Validation validation = ValidateBuffered(*graph);
  if (!validation.ok()) {
    return RunFailed("the graph is not valid, " + ShownFaults(validation, source));
  }
  if (!validation.needed_buffer.empty()) {
    AddWarning({kBufferedSendsCode, 1, validation.needed_buffer}, &graph->warnings);
  }
  return OkStatus();
}

std::string GraphFileOf(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored)
             ? (std::filesystem::path(path) / "graph.prism").string()
             : path;
}

Status RefuseFailedRun(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path failure = std::filesystem::path(path) / "FAILED";
  return std::filesystem::exists(failure, ignored)
             ? BadFile(fmt::format("{}: this run failed; see {}", path, failure.string()))
             : OkStatus();
}

Result<LoadedGraph> LoadValidGraph(const std::string& given) {
  PRISM_RETURN_IF_ERROR(RefuseFailedRun(given));
  const std::string path = GraphFileOf(given);
  LoadedGraph loaded;
  loaded.path = path;
  PRISM_ASSIGN_OR_RETURN(loaded.graph, ReadGraph(path));
  std::error_code ignored;
  loaded.file_bytes = static_cast<int64_t>(std::filesystem::file_size(path, ignored));
  const Status valid = RefuseInvalid(&loaded.graph);
  if (!valid.ok()) {
    return BadFile(fmt::format("{}: {}", path, valid.message()));
  }
  return loaded;
}

}  // namespace prism::graph
