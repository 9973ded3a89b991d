#include "tests/fuzz/import_input.h"

#include "graph/base/check.h"
#include "graph/file.h"
#include "graph/validate.h"
#include "slicer/import/goal/goal_import.h"

namespace prism::testing {
namespace {

using slicer::ImportOptions;
using slicer::ImportResult;

Result<ImportResult> Import(std::string_view format, std::string_view bytes) {
  if (format == "goal") {
    return slicer::ImportGoalBytes(bytes, "fuzz input", ImportOptions());
  }
  return BadFile("no such format");
}

}  // namespace

void TryImport(std::string_view input) {
  const size_t line = input.find('\n');
  if (line == std::string_view::npos) {
    return;
  }
  const Result<ImportResult> imported = Import(input.substr(0, line), input.substr(line + 1));
  if (!imported.ok()) {
    PRISM_CHECK(imported.status().code() == StatusCode::kBadFile);
    PRISM_CHECK(!imported.status().message().empty());
    return;
  }
  PRISM_CHECK(graph::Validate(imported->graph).ok());
  PRISM_CHECK(graph::DecodeGraph(graph::EncodeGraph(imported->graph), "own encoding").ok());
}

}  // namespace prism::testing
