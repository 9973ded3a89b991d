// prism report: the summary of a finished run again, and why its iteration is as long as it is. A
// run folder is replayed as its config.toml says.
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/valid_graph.h"
#include "launch/options/perturbation.h"
#include "launch/replays/explanation.h"
#include "launch/replays/html_replay.h"
#include "launch/verbs/json_leaves.h"
#include "launch/verbs/replay_arguments.h"
#include "launch/verbs/verb.h"
#include "replayer/cost/cluster_check.h"
#include "replayer/ineffective_perturbations.h"

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
    if (fs::exists(folder / "FAILED", ignored)) {
      return BadFile(
          fmt::format("{}: this run failed, see {}", path, (folder / "FAILED").string()));
    }
    if (!fs::exists(folder / "config.toml", ignored)) {
      return BadFile(fmt::format(
          "{}: no output folder of prism-emulate, which would hold a config.toml", path));
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

Result<VerbOutput> Run(const VerbArguments& arguments) {
  PRISM_RETURN_IF_ERROR(arguments.CheckOutput("html"));
  PRISM_ASSIGN_OR_RETURN(FinishedRun run, LoadRun(arguments.operands().front()));
  std::string edit_file;
  PRISM_RETURN_IF_ERROR(ReadReplayArguments(arguments, &run.options, &edit_file));
  if (!edit_file.empty()) {
    return InvalidArgument("--edit FILE.toml compares two replays; give it to prism replay");
  }
  PRISM_ASSIGN_OR_RETURN(
      const replayer::ReplayOptions replay,
      MakeReplayOptions(run.options, run.loaded.graph.job, run.loaded.graph.cluster));
  VerbOutput output;
  PRISM_ASSIGN_OR_RETURN(output.text,
                         SummaryAndExplanation(run.loaded, replay, ReadExplanationChoice(arguments),
                                               arguments.format()));
  if (arguments.Has("html")) {
    PRISM_RETURN_IF_ERROR(WriteHtmlReplay(run.loaded, replay, arguments.Text("html")));
  }
  return output;
}

}  // namespace

Verb ReportVerb() {
  Verb verb;
  verb.spec = {
      "report",
      "RUN|GRAPH",
      "the summary of a finished run, and why it takes as long as it does",
      "RUN is the output folder of prism-emulate; its perturbations, network and iterations are\n"
      "those of the run, unless given here. --edit takes perturbations alone here; FILE.toml is "
      "for\n"
      "prism replay, which compares two jobs.\n"
      "The numbers are those of its graph: what a program did beside it is not in them, though in\n"
      "the warnings.\n",
      1,
      1,
      ExplanationOptions()};
  verb.spec.options.push_back({"html", "FILE", "none",
                               "also write one page with what each stage does over the iteration, "
                               "memory by role, how ranks "
                               "differ, communicators and all that was assumed"});
  for (const VerbOption& option : ReplayVerbOptions()) {
    verb.spec.options.push_back(option);
  }
  verb.run = Run;
  return verb;
}

}  // namespace prism::launch
