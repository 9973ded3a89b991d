// prism report: the summary of a finished run again, and why its iteration is as long as it is. A
// run folder is replayed as its config.toml says.
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/validate/valid_graph.h"
#include "launch/analyse/explanation.h"
#include "launch/analyse/replay_summary.h"
#include "launch/cli/json_leaves.h"
#include "launch/cli/replay_arguments.h"
#include "launch/cli/verb.h"
#include "launch/inputs/perturbation.h"
#include "replayer/cost/cluster_check.h"
#include "replayer/ineffective_perturbations.h"
#include "replayer/replay.h"
#include "replayer/report/html.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

// A graph and how it was run.
struct FinishedRun {
  graph::LoadedGraph loaded;
  Options options;
};

// Adds the run's warnings that are not in its graph, as if they were.
Status AddWarnings(const fs::path& folder, graph::Graph* graph) {
  const std::string path = (folder / "summary.json").string();
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return OkStatus();  // a graph with a config.toml beside it
  }
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  PRISM_ASSIGN_OR_RETURN(const std::vector<graph::Warning> told, WarningsOfSummary(text, path));
  std::set<std::string> known = {replayer::kNoEffectCode};  // found out anew
  for (const graph::Warning& warning : graph->warnings) {
    known.insert(warning.code);
  }
  for (const graph::Warning& warning : told) {
    if (!known.contains(warning.code)) {
      graph->warnings.push_back(warning);
    }
  }
  return OkStatus();
}

Result<FinishedRun> LoadRun(const std::string& path) {
  FinishedRun run;
  std::error_code ignored;
  std::string graph = path;
  if (fs::is_directory(path, ignored)) {
    const fs::path folder(path);
    PRISM_RETURN_IF_ERROR(graph::RefuseFailedRun(path));
    if (!fs::exists(folder / "config.toml", ignored)) {
      return BadFile(
          fmt::format("{}: not an output folder of prism-emulate (it has no config.toml)", path));
    }
    PRISM_ASSIGN_OR_RETURN(run.options, ReadRunOptions((folder / "config.toml").string()));
    graph = (folder / "graph.prism").string();
  }
  PRISM_ASSIGN_OR_RETURN(run.loaded, graph::LoadValidGraph(graph));
  if (graph != path) {
    PRISM_RETURN_IF_ERROR(AddWarnings(path, &run.loaded.graph));
  }
  PRISM_RETURN_IF_ERROR(replayer::RefuseUncosted(run.loaded));
  run.options.seed = run.loaded.graph.job.seed;
  return run;
}

Result<VerbOutput> RunReport(const VerbArguments& arguments) {
  PRISM_RETURN_IF_ERROR(arguments.CheckOutput("html"));
  PRISM_ASSIGN_OR_RETURN(FinishedRun run, LoadRun(arguments.operands().front()));
  std::string edit_file;
  PRISM_RETURN_IF_ERROR(ReadReplayArguments(arguments, &run.options, &edit_file));
  if (!edit_file.empty()) {
    return InvalidArgument("--edit FILE.toml compares two replays; use prism replay for that");
  }
  PRISM_ASSIGN_OR_RETURN(
      const replayer::ReplayOptions replay,
      MakeReplayOptions(run.options, run.loaded.graph.job, run.loaded.graph.cluster));
  const graph::Graph& graph = run.loaded.graph;
  replayer::ReplayOptions traced = replay;
  if (arguments.Has("html")) {
    traced.traced = replayer::RanksInHtml(graph);
  }
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayResult result, replayer::Replay(graph, traced));
  PRISM_ASSIGN_OR_RETURN(const replayer::Summary summary,
                         SummaryOf(run.loaded, replay, result, Warns::kOfNoEffect));
  PRISM_ASSIGN_OR_RETURN(const Explanation explanation,
                         Explain(ReadExplanationChoice(arguments), graph, replay));
  VerbOutput output;
  output.text = SummaryAndExplanation(graph, summary, explanation, arguments.format());
  if (arguments.Has("html")) {
    const replayer::WhatMatters* matters = explanation.matters ? &*explanation.matters : nullptr;
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(
        arguments.Text("html"), replayer::HtmlReport(graph, result, summary, matters)));
  }
  return output;
}

}  // namespace

Verb ReportVerb() {
  Verb verb;
  verb.spec = {
      "report",
      "RUN|GRAPH",
      "summarise a finished run, and explain why it takes as long as it does",
      "RUN is the output folder of prism-emulate; perturbations, network and iterations are those "
      "of\n"
      "the run unless given here. --edit takes only perturbations here; FILE.toml is for prism\n"
      "replay, which compares two jobs.\n"
      "The numbers are those of the run's graph: where a program departed from it, only the "
      "warnings\n"
      "say so.\n",
      1,
      1,
      ExplanationOptions()};
  verb.spec.options.push_back(
      {"html", "FILE", "none",
       "also write one page: what each stage does over the iteration, memory by role, differences "
       "between ranks, communicators, what --what-matters finds, and all assumptions"});
  for (const OptionRow& option : ReplayVerbOptions()) {
    verb.spec.options.push_back(option);
  }
  verb.run = RunReport;
  return verb;
}

}  // namespace prism::launch
