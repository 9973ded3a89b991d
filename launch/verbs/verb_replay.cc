// prism replay: the timeline of a graph, computed again. Without --perturb it gives the numbers of
// the run that wrote the graph.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/valid_graph.h"
#include "launch/options/measured_kernels.h"
#include "launch/options/perturbation.h"
#include "launch/options/variation.h"
#include "launch/verbs/edit_file.h"
#include "launch/verbs/explanation.h"
#include "launch/verbs/iteration_samples.h"
#include "launch/verbs/replay_arguments.h"
#include "launch/verbs/replay_difference.h"
#include "launch/verbs/replay_sweep.h"
#include "launch/verbs/shared_network.h"
#include "launch/verbs/verb.h"
#include "replayer/cost/cluster_check.h"
#include "replayer/perturbation_effect.h"

namespace prism::launch {
namespace {

// Kernels that an edit names take a time computed on its cluster, where the varied number would not
// be the one that counts.
Status RefuseNumberOfEdit(const EditFile& file, const std::string& key, double value) {
  if (file.edit.programs.empty() || !file.edit.cluster) {
    return OkStatus();
  }
  PRISM_ASSIGN_OR_RETURN(const graph::ClusterSpec varied,
                         VariedCluster(*file.edit.cluster, key, value));
  return varied == *file.edit.cluster
             ? OkStatus()
             : InvalidArgument(fmt::format(
                   "--vary: the edit states {} too, and kernels whose times follow from it", key));
}

// --vary: the job, or what the edit makes of it, at each value.
Result<VerbOutput> RunSweep(const VerbArguments& arguments,
                            const graph::LoadedGraph& loaded,
                            const replayer::ReplayOptions& replay,
                            const std::string& edit_file) {
  for (const char* flag : {"samples", "gains", "job", "costs", "critical-path", "find-straggler"}) {
    if (arguments.Has(flag)) {
      return InvalidArgument(fmt::format("--vary repeats the replay; leave --{} out", flag));
    }
  }
  PRISM_ASSIGN_OR_RETURN(const Variation variation, ParseVariation(arguments.Text("vary")));
  EditFile file;
  const auto job = [&](const graph::Graph& graph, double value) -> Result<replayer::EditedJob> {
    if (edit_file.empty()) {
      return replayer::EditedJob{graph, replay};
    }
    PRISM_ASSIGN_OR_RETURN(file, ReadEditFile(edit_file, graph, replay));
    PRISM_RETURN_IF_ERROR(RefuseNumberOfEdit(file, variation.key, value));
    Result<replayer::EditedJob> edited =
        replayer::ApplyEdit(file.program ? *file.program : graph, replay, file.edit);
    return edited.ok() ? std::move(edited) : FaultOfEdit(edited.status(), edit_file);
  };
  PRISM_ASSIGN_OR_RETURN(ReplaySweep sweep, SweepReplay(loaded, variation, job));
  sweep.assumptions.insert(sweep.assumptions.end(), file.assumptions.begin(),
                           file.assumptions.end());
  if (arguments.Has("csv")) {
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(arguments.Text("csv"), ReplaySweepCsv(sweep)));
  }
  if (arguments.Has("svg")) {
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(arguments.Text("svg"), ReplaySweepSvg(sweep)));
  }
  VerbOutput output;
  output.text =
      arguments.format() == OutputFormat::kJson ? ReplaySweepJson(sweep) : ReplaySweepText(sweep);
  return output;
}

// Each of these prints something of its own, in place of the summary and what explains it.
Status RefuseIgnored(const VerbArguments& arguments) {
  for (const char* mode : {"job", "samples", "gains"}) {
    for (const char* other :
         {"job", "samples", "gains", "costs", "critical-path", "find-straggler"}) {
      if (arguments.Has(mode) && arguments.Has(other) && std::string_view(mode) != other) {
        return InvalidArgument(
            fmt::format("--{} and --{} print different things: one of them", mode, other));
      }
    }
  }
  return OkStatus();
}

Result<VerbOutput> Run(const VerbArguments& arguments) {
  Options options;
  std::string edit_file;
  PRISM_RETURN_IF_ERROR(ReadReplayArguments(arguments, &options, &edit_file));
  for (const char* flag : {"csv", "svg"}) {
    PRISM_RETURN_IF_ERROR(arguments.CheckOutput(flag));
  }
  PRISM_ASSIGN_OR_RETURN(graph::LoadedGraph loaded,
                         graph::LoadValidGraph(arguments.operands().front()));
  PRISM_RETURN_IF_ERROR(replayer::RefuseUncosted(loaded));
  for (const std::string& table : arguments.Texts("kernels")) {
    PRISM_RETURN_IF_ERROR(UseMeasuredKernels(table, &loaded.graph.cluster));
  }
  const graph::JobSpec& job = loaded.graph.job;
  options.seed = job.seed;
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayOptions replay,
                         MakeReplayOptions(options, job, loaded.graph.cluster));
  if (arguments.Has("vary")) {
    return RunSweep(arguments, loaded, replay, edit_file);
  }
  if (arguments.Has("csv") || arguments.Has("svg")) {
    return InvalidArgument("--csv and --svg are of --vary KEY:FROM:TO:STEPS");
  }
  PRISM_RETURN_IF_ERROR(RefuseIgnored(arguments));
  VerbOutput output;
  const bool flow = options.network == replayer::NetworkModel::kFlow;
  if (flow && (!edit_file.empty() || arguments.Has("gains"))) {
    return InvalidArgument("--edit FILE.toml and --gains know no --network flow");
  }
  if (!edit_file.empty()) {
    if (arguments.Has("samples") || arguments.Has("gains") || arguments.Has("critical-path") ||
        arguments.Has("find-straggler")) {
      return InvalidArgument(
          "--edit FILE.toml compares two replays; leave --samples, --gains,"
          " --critical-path and --find-straggler out");
    }
    PRISM_ASSIGN_OR_RETURN(output.text,
                           EditDifference(loaded.graph, replay, edit_file, arguments.format()));
    return output;
  }
  if (arguments.Has("job")) {
    if (!flow) {
      return InvalidArgument("--job needs --network flow: else jobs do not meet");
    }
    PRISM_ASSIGN_OR_RETURN(
        output.text,
        ReplayOnSharedNetwork(loaded, replay, arguments.Texts("job"), arguments.format()));
    return output;
  }
  if (arguments.Has("samples")) {
    int64_t count = 0;
    PRISM_RETURN_IF_ERROR(arguments.ReadInt("samples", 1, 1'000'000, &count));
    PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
    PRISM_ASSIGN_OR_RETURN(const IterationSamples samples,
                           SampleIterations(session, loaded.graph, replay, count));
    PRISM_ASSIGN_OR_RETURN(const std::vector<graph::Warning> warnings,
                           replayer::WarnOfNoEffect(loaded.graph, replay));
    output.text = SamplesText(samples, warnings, arguments.format());
    return output;
  }
  if (arguments.Has("gains")) {
    PRISM_ASSIGN_OR_RETURN(output.text, Gains(loaded.graph, replay, arguments.format()));
    return output;
  }
  PRISM_ASSIGN_OR_RETURN(output.text, SummaryAndExplanation(arguments, loaded, replay));
  return output;
}

}  // namespace

Verb ReplayVerb() {
  static const std::string notes =
      std::string(
          "Without --perturb the numbers are those of the run that wrote the graph, and\n"
          "--format json gives the bytes of its summary.json.\n"
          "\n") +
      kEditFileHelp;
  Verb verb;
  verb.spec = {
      "replay",
      "GRAPH",
      "compute the timeline of all ranks again",
      notes.c_str(),
      1,
      1,
      {{"kernels", "FILE", "none",
        "CSV of measured kernels (kind, type, m, n, k, batch, seconds, source), which "
        "count instead of the model; repeatable"},
       {"samples", "N", "off",
        "with jitter: p50, p90 and p99 of the iteration time over N seeds, which mpirun "
        "spreads over its processes"},
       {"job", "GRAPH[:FIRST_NODE]", "none",
        "with --network flow: a further job on the same network, from that node on or "
        "after the others; repeatable. Prints each job's iteration time alone and "
        "together"},
       {"gains", "", "off",
        "the iteration time without compute, the host, communication, each family of "
        "communicators, each perturbation"},
       {"vary", "KEY:FROM:TO:STEPS", "none",
        "repeat the replay with other values of one parameter of the graph's cluster; with "
        "--edit FILE.toml of the edited job"},
       {"csv", "FILE", "none", "what --vary prints"},
       {"svg", "FILE", "none", "the iteration time over what is varied"}}};
  for (const auto& more : {ReplayVerbOptions(), ExplanationOptions()}) {
    verb.spec.options.insert(verb.spec.options.end(), more.begin(), more.end());
  }
  verb.run = Run;
  return verb;
}

}  // namespace prism::launch
