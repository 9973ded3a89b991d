#include "slicer/import/importer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/validate.h"

namespace prism::slicer {
namespace {

constexpr size_t kShownFaults = 3;

}  // namespace

std::string StemOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.find('.', 1);
  return dot == std::string::npos ? name : name.substr(0, dot);
}

Result<ImportResult> FinishImport(GraphAssembly assembly,
                                  const ImportOptions& options,
                                  ImportResult result,
                                  const std::string& file) {
  const std::string name = options.job_name.empty() ? StemOf(file) : options.job_name;
  result.graph = assembly.Finish(name, options.cluster);
  result.graph.assumptions = result.notes.Lines();
  const graph::Validation validation = graph::Validate(result.graph);
  if (validation.ok()) {
    return result;
  }
  std::string text = fmt::format("{}: what it describes cannot run, {}:", file,
                                 FormatCounted(validation.fault_count, "fault"));
  for (size_t i = 0; i < std::min(kShownFaults, validation.faults.size()); ++i) {
    text += fmt::format("\n  {}: {}", validation.faults[i].rule, validation.faults[i].message);
  }
  return BadFile(text);
}

}  // namespace prism::slicer
