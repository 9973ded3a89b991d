#include "tests/fuzz/import_input.h"

#include <algorithm>

#include "graph/base/check.h"
#include "graph/file.h"
#include "graph/validate/validate.h"
#include "slicer/import/astra/network_file.h"
#include "slicer/import/astra/simai_topology.h"
#include "slicer/import/astra/workload_import.h"
#include "slicer/import/chakra/chakra_import.h"
#include "slicer/import/chakra/process_groups.h"
#include "slicer/import/goal/goal_import.h"
#include "slicer/import/kineto/kineto_import.h"

namespace prism::testing {
namespace {

using slicer::ImportOptions;
using slicer::ImportResult;

Result<ImportResult> Import(std::string_view format, std::string_view bytes) {
  if (format == "goal") {
    return slicer::ImportGoalBytes(bytes, "fuzz input", ImportOptions());
  }
  if (format == "chakra") {
    return slicer::ImportChakraBytes({{"fuzz input", bytes}}, ImportOptions(), {});
  }
  if (format == "chakra of 4") {  // equal ranks
    ImportOptions options;
    options.target_gpus = 4;
    return slicer::ImportChakraBytes({{"fuzz input", bytes}}, options, {{}, {2, 2}});
  }
  if (format == "astra" || format == "simai") {
    ImportOptions options;
    options.target_gpus = 8;
    slicer::LayerOptions layers;
    layers.dialect =
        format == "astra" ? slicer::LayerDialect::kAstra : slicer::LayerDialect::kSimAi;
    layers.dims = {2, 4};
    return slicer::ImportLayersText(bytes, "fuzz input", options, layers);
  }
  if (format == "kineto") {
    return slicer::ImportKinetoBytes({{"fuzz input", bytes}}, ImportOptions());
  }
  if (format == "executed") {  // a profile on one line, then its execution trace
    const size_t line = std::min(bytes.find('\n'), bytes.size());
    return slicer::ImportKinetoBytes(
        {{"fuzz input", bytes.substr(0, line)}, {"fuzz trace", bytes.substr(line)}},
        ImportOptions());
  }
  if (format == "groups") {
    slicer::ProcessGroups groups;
    PRISM_RETURN_IF_ERROR(slicer::ReadGroupFile(bytes, "fuzz input", 4, &groups));
    return BadFile("groups are no graph");
  }
  if (format == "group node") {
    slicer::ProcessGroups groups;
    PRISM_RETURN_IF_ERROR(slicer::ReadGroupNode(bytes, "fuzz input", 4, &groups));
    return BadFile("groups are no graph");
  }
  if (format == "network") {
    PRISM_RETURN_IF_ERROR(slicer::ParseAstraNetwork(bytes, "fuzz input").status());
    return BadFile("a network is no graph");
  }
  if (format == "topology") {
    PRISM_RETURN_IF_ERROR(slicer::ParseSimAiTopology(bytes, "fuzz input").status());
    return BadFile("a topology is no graph");
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
