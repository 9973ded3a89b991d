// prism export: a graph → replay formats of others.
#include <string>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/validate/valid_graph.h"
#include "launch/cli/verb.h"
#include "launch/inputs/fixed_durations.h"
#include "launch/inputs/named_format.h"
#include "replayer/cost/cluster_check.h"
#include "slicer/export/astra/layer_export.h"
#include "slicer/export/chakra/chakra_export.h"
#include "slicer/export/goal/goal_export.h"

namespace prism::launch {
namespace {

using slicer::ExportResult;

struct ExportOptions {
  std::string out;
};

struct Format {
  const char* name;
  Result<ExportResult> (*write)(const graph::Graph& graph, const std::string& path);
};

Result<ExportResult> WriteGoalText(const graph::Graph& graph, const std::string& path) {
  return slicer::ExportGoal(graph, path, slicer::GoalForm::kText);
}

Result<ExportResult> WriteGoalBinary(const graph::Graph& graph, const std::string& path) {
  return slicer::ExportGoal(graph, path, slicer::GoalForm::kBinary);
}

constexpr Format kFormats[] = {
    {"goal", WriteGoalText},
    {"goal-binary", WriteGoalBinary},
    {"chakra", slicer::ExportChakra},
    {"simai", slicer::ExportSimAi},
};

std::string ResultText(const ExportResult& result, const std::string& out) {
  std::string text = fmt::format("{}: {} in {}, {}\n", out, FormatCounted(result.tasks, "task"),
                                 FormatCounted(static_cast<int64_t>(result.files.size()), "file"),
                                 FormatBytes(result.bytes));
  for (const std::string& line : result.notes.Lines()) {
    text += fmt::format("  not held  {}\n", line);
  }
  return text;
}

std::string ResultJson(const ExportResult& result, const std::string& out) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("out", out).Field("files", result.files.size());
  json.Field("tasks", result.tasks).Field("bytes", result.bytes);
  json.Key("not_held").BeginArray();
  for (const auto& [what, count] : result.notes.counts()) {
    json.BeginObject().Field("what", what).Field("count", count).EndObject();
  }
  json.EndArray().EndObject();
  return text + "\n";
}

Result<VerbOutput> RunExport(const VerbArguments& arguments, const ExportOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const Format* const format,
                         FindFormat(kFormats, arguments.operands().front()));
  const std::string& out = options.out;
  if (out.empty()) {
    return InvalidArgument("no output file; name one with -o OUT");
  }
  PRISM_RETURN_IF_ERROR(arguments.CheckOutput("o"));
  PRISM_ASSIGN_OR_RETURN(graph::LoadedGraph loaded, graph::LoadValidGraph(arguments.operands()[1]));
  PRISM_RETURN_IF_ERROR(replayer::RefuseUncosted(loaded));
  FixDurations(&loaded.graph);
  PRISM_ASSIGN_OR_RETURN(const ExportResult result, format->write(loaded.graph, out));
  VerbOutput output;
  output.text =
      arguments.format() == OutputFormat::kJson ? ResultJson(result, out) : ResultText(result, out);
  return output;
}

}  // namespace

Verb ExportVerb() {
  return MakeVerb<ExportOptions>(
      {"export",
       "FORMAT GRAPH",
       "write a graph as a workload for another tool",
       "  goal         a GOAL schedule (LogGOPSim, ATLAHS) as text\n"
       "  goal-binary  the same in LogGOPSim's binary form (as txt2bin writes it)\n"
       "  chakra       Chakra execution traces: OUT.<rank>.et, with OUT.groups.json and\n"
       "               OUT.network.yml for ASTRA-sim\n"
       "  simai        a SimAI text workload: what rank 0 does, one layer per collective\n"
       "One iteration is written. Times come from the graph's cluster; what the format\n"
       "cannot hold is counted and listed.\n",
       2,
       2,
       {},
       FormatNames(kFormats)},
      {{"o", &ExportOptions::out, Text("OUT"), "the file to write, or the prefix of several files",
        "needed"}},
      RunExport);
}

}  // namespace prism::launch
