// prism graph validate: every fault of a graph, like a linter.
#include <string>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/file.h"
#include "graph/validate/valid_graph.h"
#include "graph/validate/validate.h"
#include "launch/cli/verb.h"

namespace prism::launch {
namespace {

struct ValidateOptions {
  size_t max_faults = 100;
};

std::string FaultsText(const std::string& path,
                       const graph::Graph& graph,
                       const graph::Validation& validation) {
  if (validation.ok()) {
    std::string text = fmt::format("{}: valid, {} of {} in {}\n", path,
                                   FormatCounted(graph.OpsPerIteration(), "op"),
                                   FormatCounted(graph.ranks.size(), "rank"),
                                   FormatCounted(static_cast<int64_t>(graph.roles.size()), "role"));
    if (!validation.needed_buffer.empty()) {
      text +=
          fmt::format("{}: {}: {}\n", path, graph::kBufferedSendsCode, validation.needed_buffer);
    }
    return text;
  }
  std::string text;
  for (const graph::Fault& fault : validation.faults) {
    text += fmt::format("{}: {}: {}\n", path, fault.rule, fault.message);
  }
  const auto hidden = validation.fault_count - static_cast<int64_t>(validation.faults.size());
  return hidden == 0 ? text : text + fmt::format("{}: {} more faults\n", path, FormatCount(hidden));
}

std::string FaultsJson(const graph::Graph& graph, const graph::Validation& validation) {
  return JsonText([&](JsonWriter& json) {
    json.Field("valid", validation.ok());
    json.Field(graph::kBufferedSendsCode, !validation.needed_buffer.empty());
    json.Field("fault_count", validation.fault_count);
    json.ObjectsField("faults", validation.faults, [&](const graph::Fault& fault) {
      json.Field("rule", fault.rule).Field("message", fault.message);
    });
    json.Field("roles", graph.roles.size());
    json.Field("ranks", graph.ranks.size());
  });
}

Result<VerbOutput> RunGraphValidate(const VerbArguments& arguments,
                                    const ValidateOptions& options) {
  const std::string path = graph::GraphFileOf(arguments.operands().front());
  PRISM_ASSIGN_OR_RETURN(const graph::Graph graph, graph::ReadGraph(path));
  const graph::Validation validation = graph::ValidateBuffered(graph, options.max_faults);
  VerbOutput output;
  output.text =
      arguments.as_json() ? FaultsJson(graph, validation) : FaultsText(path, graph, validation);
  if (!validation.ok()) {
    output.gate = GateNotMet(fmt::format("{}: {}; record the job again", path,
                                         FormatCounted(validation.fault_count, "fault")));
  }
  return output;
}

}  // namespace

Verb GraphValidateVerb() {
  return MakeVerb<ValidateOptions>(
      {"graph validate", "GRAPH", "prove that a graph can run, or list its faults",
       "Exit codes: 0 valid, 4 faults found, 3 the file is absent or damaged.\n", 1, 1},
      {{"max-faults", &ValidateOptions::max_faults, WholeNumber(1, 1'000'000),
        "faults to list; all are counted"}},
      RunGraphValidate);
}

}  // namespace prism::launch
