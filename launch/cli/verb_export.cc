// prism export: a graph → replay formats of others.
#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "graph/base/json_writer.h"
#include "graph/base/time.h"
#include "graph/base/units.h"
#include "graph/validate/valid_graph.h"
#include "launch/cli/verb.h"
#include "launch/inputs/fixed_durations.h"
#include "launch/inputs/named_format.h"
#include "replayer/cost/cluster_check.h"
#include "replayer/replay.h"
#include "slicer/export/astra/layer_export.h"
#include "slicer/export/chakra/chakra_export.h"
#include "slicer/export/goal/goal_export.h"
#include "slicer/import/goal/goal_import.h"

namespace prism::launch {
namespace {

using slicer::ExportResult;

struct ExportOptions {
  std::string out;
};

struct Format {
  const char* name;
  Result<ExportResult> (*write)(const graph::Graph& graph, const std::string& path);
  bool is_goal = false;
};

Result<ExportResult> WriteGoalText(const graph::Graph& graph, const std::string& path) {
  return slicer::ExportGoal(graph, path, slicer::GoalForm::kText);
}

Result<ExportResult> WriteGoalBinary(const graph::Graph& graph, const std::string& path) {
  return slicer::ExportGoal(graph, path, slicer::GoalForm::kBinary);
}

constexpr Format kFormats[] = {
    {"goal", WriteGoalText, true},
    {"goal-binary", WriteGoalBinary, true},
    {"chakra", slicer::ExportChakra},
    {"simai", slicer::ExportSimAi},
};

// What is written may take another time than the graph: messages stand for collectives, and hosts
// take none.
struct ReplayedTimes {
  double graph_s = 0;
  double written_s = 0;

  [[nodiscard]] double factor() const { return written_s / graph_s; }
};

// Of a schedule that was written, if it is small enough to be read again at once.
Result<std::optional<ReplayedTimes>> ReplayGoal(const graph::Graph& graph,
                                                const ExportResult& result) {
  constexpr int64_t kMostTasks = 1'000'000;
  if (result.tasks > kMostTasks) {
    return std::optional<ReplayedTimes>();
  }
  PRISM_ASSIGN_OR_RETURN(
      const slicer::ImportResult written,
      slicer::ImportGoal(result.files.front(), {.cluster = graph.cluster, .job_name = "goal"}));
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult of_graph, replayer::Replay(graph, {}));
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult of_written,
                         replayer::Replay(written.graph, {}));
  const DurationNs graph_ns = of_graph.steady_iteration_ns();
  return graph_ns == 0 ? std::optional<ReplayedTimes>()
                       : ReplayedTimes{SecondsFromNs(graph_ns),
                                       SecondsFromNs(of_written.steady_iteration_ns())};
}

std::string ResultText(const ExportResult& result,
                       const std::optional<ReplayedTimes>& times,
                       const std::string& out) {
  std::string text = fmt::format("{}: {} in {}, {}\n", out, FormatCounted(result.tasks, "task"),
                                 FormatCounted(static_cast<int64_t>(result.files.size()), "file"),
                                 FormatBytes(result.bytes));
  for (const std::string& line : result.notes.Lines()) {
    text += fmt::format("  not held  {}\n", line);
  }
  if (times) {
    text += fmt::format("  replayed  {:.4g} s, {:.3f} times the graph's {:.4g} s\n",
                        times->written_s, times->factor(), times->graph_s);
  }
  return text;
}

std::string ResultJson(const ExportResult& result,
                       const std::optional<ReplayedTimes>& times,
                       const std::string& out) {
  return JsonText([&](JsonWriter& json) {
    json.Field("out", out).Field("files", result.files.size());
    json.Field("tasks", result.tasks).Field("bytes", result.bytes);
    json.ObjectsField("not_held", result.notes.counts(), [&](const auto& note) {
      json.Field("what", note.first).Field("count", note.second);
    });
    if (times) {
      json.Field("graph_s", times->graph_s).Field("replayed_s", times->written_s);
      json.Field("factor", times->factor());
    }
  });
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
  std::optional<ReplayedTimes> times;
  if (format->is_goal) {
    PRISM_ASSIGN_OR_RETURN(times, ReplayGoal(loaded.graph, result));
  }
  return VerbOutput{arguments.as_json() ? ResultJson(result, times, out)
                                        : ResultText(result, times, out)};
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
       "cannot hold is counted and listed; a GOAL schedule is read again, to say by which factor\n"
       "it takes longer or shorter than the graph.\n",
       2,
       2,
       {},
       FormatNames(kFormats)},
      {{"o", &ExportOptions::out, Text("OUT"), "the file to write, or the prefix of several files",
        "needed"}},
      RunExport);
}

}  // namespace prism::launch
