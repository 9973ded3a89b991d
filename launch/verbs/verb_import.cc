// prism import: replay formats of others → a graph.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/file.h"
#include "launch/options/presets.h"
#include "launch/verbs/verb.h"
#include "slicer/import/goal/goal_import.h"

namespace prism::launch {
namespace {

using slicer::ImportOptions;
using slicer::ImportResult;

struct Format {
  const char* name;
  size_t max_files;
  Result<ImportResult> (*read)(const std::vector<std::string>& files, const ImportOptions& options);
};

constexpr size_t kManyFiles = 1 << 20;

Result<ImportResult> ReadGoal(const std::vector<std::string>& files, const ImportOptions& options) {
  return slicer::ImportGoal(files.front(), options);
}

constexpr Format kFormats[] = {
    {"goal", 1, ReadGoal},
};

Result<const Format*> FindFormat(const std::string& name) {
  std::vector<std::string> names;
  for (const Format& format : kFormats) {
    if (name == format.name) {
      return &format;
    }
    names.emplace_back(format.name);
  }
  return InvalidArgument(
      fmt::format("unknown format '{}'; choose {}", name, fmt::join(names, ", ")));
}

std::string ResultText(const ImportResult& result, const std::string& out) {
  const graph::Graph& graph = result.graph;
  std::string text =
      fmt::format("{}: {} in {}, {} ops an iteration, {}\n", out,
                  FormatCounted(static_cast<int64_t>(graph.ranks.size()), "rank"),
                  FormatCounted(static_cast<int64_t>(graph.roles.size()), "role"),
                  FormatCount(graph.OpsPerIteration()),
                  FormatCounted(static_cast<int64_t>(graph.communicators.size()), "communicator"));
  text += fmt::format("  read      {} of {}\n", FormatCounted(result.tasks, "task"),
                      FormatBytes(result.bytes_read));
  for (const std::string& line : result.notes.Lines()) {
    text += fmt::format("  assumed   {}\n", line);
  }
  return text;
}

std::string ResultJson(const ImportResult& result, const std::string& out) {
  const graph::Graph& graph = result.graph;
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("graph", out).Field("job", graph.job.name).Field("cluster", graph.cluster.name);
  json.Field("ranks", graph.ranks.size()).Field("roles", graph.roles.size());
  json.Field("ops", graph.OpsPerIteration()).Field("communicators", graph.communicators.size());
  json.Field("tasks", result.tasks).Field("bytes_read", result.bytes_read);
  json.Key("assumptions").BeginArray();
  for (const auto& [what, count] : result.notes.counts()) {
    json.BeginObject().Field("what", what).Field("count", count).EndObject();
  }
  json.EndArray().EndObject();
  return text + "\n";
}

Result<VerbOutput> Run(const VerbArguments& arguments) {
  PRISM_ASSIGN_OR_RETURN(const Format* const format, FindFormat(arguments.operands().front()));
  const std::vector<std::string> files(arguments.operands().begin() + 1,
                                       arguments.operands().end());
  if (files.size() > format->max_files) {
    return InvalidArgument(fmt::format("{} is one file, got {}", format->name,
                                       FormatCount(static_cast<int64_t>(files.size()))));
  }
  if (!arguments.Has("o")) {
    return InvalidArgument("-o GRAPH is missing: the file to write");
  }
  const std::string out = arguments.Texts("o").back();
  ImportOptions options;
  const std::string cluster =
      arguments.Has("cluster") ? arguments.Texts("cluster").back() : "h100-8x";
  PRISM_ASSIGN_OR_RETURN(options.cluster, LoadCluster(cluster));
  PRISM_ASSIGN_OR_RETURN(const ImportResult result, format->read(files, options));
  PRISM_RETURN_IF_ERROR(graph::WriteGraph(result.graph, out));
  VerbOutput output;
  output.text =
      arguments.format() == OutputFormat::kJson ? ResultJson(result, out) : ResultText(result, out);
  return output;
}

}  // namespace

Verb ImportVerb() {
  Verb verb;
  verb.spec = {
      "import",
      "FORMAT FILE...",
      "make a graph of another tool's workload",
      "  goal    a GOAL schedule (LogGOPSim, ATLAHS), text\n"
      "What the file leaves open is counted and stands among the graph's assumptions. A file that\n"
      "is damaged or cannot run is exit code 3 and leaves no graph. A schedule runs once where\n"
      "prism replay repeats: --iterations 1 gives its time from start to end.\n",
      2,
      kManyFiles,
      {{"o", "GRAPH", "none", "the file to write"},
       {"cluster", "PRESET|FILE", "h100-8x", "what messages and collectives cost"}}};
  verb.run = Run;
  return verb;
}

}  // namespace prism::launch
