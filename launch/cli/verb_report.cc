// prism report: the summary of a finished run again, and why its iteration is as long as it is. A
// run folder is replayed as its config.toml says. Of profiles: where their time goes.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/validate/limits.h"
#include "graph/validate/valid_graph.h"
#include "launch/analyse/explanation.h"
#include "launch/analyse/nccl/nccl_log.h"
#include "launch/analyse/profile/profile_file.h"
#include "launch/analyse/profile/profile_report.h"
#include "launch/analyse/replay_summary.h"
#include "launch/cli/json_leaves.h"
#include "launch/cli/replay_arguments.h"
#include "launch/cli/verb.h"
#include "launch/inputs/measured_cluster.h"
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

const std::vector<Option<ProfileChoice>>& ProfileTable() {
  static const std::vector<Option<ProfileChoice>> table = {
      {"step", &ProfileChoice::step, WholeNumber(0, std::numeric_limits<int32_t>::max()),
       "N of the mark ProfilerStep#N that counts (profiles)", "all but the last"},
      {"last-step", &ProfileChoice::last_step, Switch(),
       "the last step counts as well (profiles)"}};
  return table;
}

// Options of graphs do not apply to profiles, nor the reverse.
Status CheckFlags(const VerbArguments& arguments, bool of_profiles) {
  const std::vector<OptionRow> own = RowsOf(ProfileTable());
  for (const auto& [key, given] : arguments.given()) {
    const bool is_own =
        std::ranges::any_of(own, [&](const OptionRow& row) { return row.key() == key; });
    const bool is_common = key == "html" || key == "format" || key == "max_memory";
    if (!is_common && is_own != of_profiles) {
      return InvalidArgument(fmt::format("{} does not apply to {}; leave it out", given.origin,
                                         of_profiles ? "profiles" : "a run or graph"));
    }
  }
  return OkStatus();
}

// By the profile of the GPU, if there is one.
GpuRates RatesOf(const std::string& gpu, int64_t memory_bytes, DataType type) {
  const Result<std::optional<graph::ClusterSpec>> cluster = ClusterOfGpu(gpu, memory_bytes);
  if (!cluster.ok() || !*cluster) {
    return {};
  }
  const graph::ParameterTable& table = (*cluster)->parameters;
  const double peak = type == DataType::kFloat32  ? std::max(table.Value("gpu.peak_tf32_flops"),
                                                             table.Value("gpu.peak_fp32_flops"))
                      : type == DataType::kFloat8 ? table.Value("gpu.peak_fp8_flops")
                      : type == DataType::kFloat16 || type == DataType::kBfloat16
                          ? table.Value("gpu.peak_bf16_flops")
                          : 0;
  return {peak, table.Value("gpu.hbm_bytes_per_s")};
}

Result<TableReport> TablesOf(const VerbArguments& arguments) {
  ProfileChoice choice;
  PRISM_RETURN_IF_ERROR(ReadOptions(ProfileTable(), arguments.given(), &choice));
  if (choice.last_step && choice.step >= 0) {
    return InvalidArgument("--step and --last-step both choose what counts; name one");
  }
  if (!IsNcclLog(arguments.operands().front())) {
    choice.rates = RatesOf;
    return ReportOfProfiles(arguments.operands(), choice);
  }
  if (choice.last_step || choice.step >= 0) {
    return InvalidArgument("--step and --last-step do not apply to logs of NCCL; leave them out");
  }
  return ReportOfNcclLogs(arguments.operands());
}

Result<VerbOutput> ReportTables(const VerbArguments& arguments) {
  PRISM_RETURN_IF_ERROR(arguments.CheckOutput("html", arguments.operands()));
  PRISM_ASSIGN_OR_RETURN(const TableReport report, TablesOf(arguments));
  if (arguments.Has("html")) {
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(arguments.Text("html"), TablesHtml(report)));
  }
  return VerbOutput{arguments.as_json() ? TablesJson(report) : TablesText(report)};
}

Result<VerbOutput> RunReport(const VerbArguments& arguments) {
  const std::string& first = arguments.operands().front();
  const bool of_profiles = IsProfileFile(first) || IsNcclLog(first);
  PRISM_RETURN_IF_ERROR(CheckFlags(arguments, of_profiles));
  if (of_profiles) {
    return ReportTables(arguments);
  }
  if (arguments.operands().size() > 1) {
    return InvalidArgument("reports are of one run or graph, or of profiles; name one");
  }
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
      "RUN|GRAPH|PROFILE...",
      "summarise a finished run or profiles, and explain why they take as long as they do",
      "RUN is the output folder of prism-emulate; perturbations, network and iterations are those "
      "of\n"
      "the run unless given here. --edit takes only perturbations here; FILE.toml is for prism\n"
      "replay, which compares two jobs.\n"
      "The numbers are those of the run's graph: where a program departed from it, only the "
      "warnings\n"
      "say so.\n"
      "PROFILE is what torch.profiler exports, or Nsight Systems as SQLite, of one rank or more: "
      "idle time by cause, overlap, kernels, ops, launches, copies, memory and "
      "stacks,\nas Holistic Trace Analysis defines them where it does. PROFILE may also be logs of "
      "NCCL\n(NCCL_DEBUG=INFO): groups, channels, connections, algorithms.\n",
      1,
      graph::kMaxRanks,
      ExplanationOptions(),
      {},
      true};
  for (const OptionRow& option : RowsOf(ProfileTable())) {
    verb.spec.options.push_back(option);
  }
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
