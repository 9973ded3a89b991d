// prism replay: the timeline of a graph, computed again. With a run's own perturbations, network
// and iterations it gives the numbers of that run.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/validate/valid_graph.h"
#include "launch/analyse/explanation.h"
#include "launch/analyse/iteration_samples.h"
#include "launch/analyse/replay_difference.h"
#include "launch/analyse/replay_summary.h"
#include "launch/analyse/replay_sweep.h"
#include "launch/analyse/shared_network.h"
#include "launch/cli/replay_arguments.h"
#include "launch/cli/verb.h"
#include "launch/inputs/edit_file.h"
#include "launch/inputs/measured_kernels.h"
#include "launch/inputs/perturbation.h"
#include "launch/inputs/placement_policy.h"
#include "launch/inputs/variation.h"
#include "replayer/cost/cluster_check.h"
#include "replayer/ineffective_perturbations.h"

namespace prism::launch {
namespace {

// Kernels that an edit names take a time computed on the edit's cluster, where the varied number
// would not apply.
Status RefuseNumberOfEdit(const EditFile& file, const std::string& key, double value) {
  if (file.edit.programs.empty() || !file.edit.cluster) {
    return OkStatus();
  }
  PRISM_ASSIGN_OR_RETURN(const graph::ClusterSpec varied,
                         VariedCluster(*file.edit.cluster, key, value));
  return varied == *file.edit.cluster
             ? OkStatus()
             : InvalidArgument(fmt::format("--vary: the edit sets {} too, and changes kernels "
                                           "whose times depend on it; leave it out of one of them",
                                           key));
}

std::string PlacementText(const VerbArguments& arguments) {
  return arguments.Text("placement", NameOf(kPlacementNames, PlacementPolicy::kPacked));
}

// Where the job's nodes are; with --job they are dealt out among all jobs instead.
Status PlaceAlone(const VerbArguments& arguments,
                  const graph::Graph& graph,
                  replayer::ReplayOptions* replay) {
  const std::vector<std::string> names = AllNames(kPlacementNames);
  std::string policy = PlacementText(arguments);
  PRISM_RETURN_IF_ERROR(arguments.ReadChoice("placement", names, &policy));
  if (arguments.Has("placement") && !arguments.Has("job")) {
    replay->placement = GpusOnNodes(
        graph,
        NodesOfJobs(*ValueNamed(kPlacementNames, policy), {NodesOf(graph)}, replay->seed).front());
  }
  return OkStatus();
}

// What is to be replayed, and what is asked about it. All references must outlive the request.
struct ReplayRequest {
  const VerbArguments& arguments;
  const graph::LoadedGraph& loaded;
  const replayer::ReplayOptions& replay;
  const std::string& edit_file;  // the .toml of --edit; "" none

  // "edit" means a .toml: any other --edit file contains perturbations, like --perturb.
  [[nodiscard]] bool Has(std::string_view flag) const {
    return flag == "edit" ? !edit_file.empty() : arguments.Has(flag);
  }
};

// The job, edited if there is an edit, at each value of a number.
Result<std::string> Vary(const ReplayRequest& request) {
  const VerbArguments& arguments = request.arguments;
  PRISM_ASSIGN_OR_RETURN(const Variation variation, ParseVariation(arguments.Text("vary")));
  EditFile file;
  const auto job = [&](const graph::Graph& graph, double value) -> Result<replayer::EditedJob> {
    if (request.edit_file.empty()) {
      return replayer::EditedJob{graph, request.replay};
    }
    PRISM_ASSIGN_OR_RETURN(file, ReadEditFile(request.edit_file, graph, request.replay));
    PRISM_RETURN_IF_ERROR(RefuseNumberOfEdit(file, variation.key, value));
    Result<replayer::EditedJob> edited =
        replayer::ApplyEdit(file.program ? *file.program : graph, request.replay, file.edit);
    return edited.ok() ? std::move(edited) : FaultOfEdit(edited.status(), request.edit_file);
  };
  PRISM_ASSIGN_OR_RETURN(ReplaySweep sweep, SweepReplay(request.loaded, variation, job));
  sweep.assumptions.insert(sweep.assumptions.end(), file.assumptions.begin(),
                           file.assumptions.end());
  if (arguments.Has("csv")) {
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(arguments.Text("csv"), ReplaySweepCsv(sweep)));
  }
  if (arguments.Has("svg")) {
    PRISM_RETURN_IF_ERROR(WriteFileAtomically(arguments.Text("svg"), ReplaySweepSvg(sweep)));
  }
  return arguments.as_json() ? ReplaySweepJson(sweep) : ReplaySweepText(sweep);
}

Result<std::string> CompareEdited(const ReplayRequest& request) {
  return EditDifference(request.loaded.graph, request.replay, request.edit_file,
                        request.arguments.format());
}

Result<std::string> ReplayWithOtherJobs(const ReplayRequest& request) {
  std::string policy = PlacementText(request.arguments);
  return ReplayOnSharedNetwork({request.loaded, request.replay, request.arguments.Texts("job"),
                                *ValueNamed(kPlacementNames, policy)},
                               request.arguments.format());
}

Result<std::string> Sample(const ReplayRequest& request) {
  int64_t count = 0;
  PRISM_RETURN_IF_ERROR(request.arguments.ReadInt("samples", 1, 1'000'000, &count));
  PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
  PRISM_ASSIGN_OR_RETURN(const IterationSamples samples,
                         SampleIterations(session, request.loaded.graph, request.replay, count));
  PRISM_ASSIGN_OR_RETURN(const std::vector<graph::Warning> warnings,
                         replayer::WarnOfNoEffect(request.loaded.graph, request.replay));
  return SamplesText(samples, warnings, request.arguments.format());
}

Result<std::string> FindGains(const ReplayRequest& request) {
  return Gains(request.loaded.graph, request.replay, request.arguments.format());
}

enum class FlowNetwork : uint8_t { kAllowed, kNeeded, kRefused };

// What is printed instead of the summary and its explanations.
struct ReplayMode {
  const char* flag;  // that requests it, as for ReplayRequest::Has
  const char* does;  // why nothing else can be requested with it
  FlowNetwork flow;
  Result<std::string> (*run)(const ReplayRequest& request);
};

constexpr ReplayMode kModes[] = {
    {"vary", "repeats the replay", FlowNetwork::kAllowed, Vary},
    {"edit", "compares two replays", FlowNetwork::kAllowed, CompareEdited},
    {"job", "prints the times of several jobs", FlowNetwork::kNeeded, ReplayWithOtherJobs},
    {"samples", "prints the times of many seeds", FlowNetwork::kAllowed, Sample},
    {"gains", "prints the time without each thing", FlowNetwork::kRefused, FindGains}};

std::string FlagText(std::string_view flag) {
  return fmt::format("--{}{}", flag, flag == "edit" ? " FILE.toml" : "");
}

// Refuses what the mode would ignore.
Status CheckMode(const ReplayMode& mode, const ReplayRequest& request) {
  std::vector<std::string_view> others = {"costs", "critical-path", "find-straggler",
                                          "what-matters"};
  for (const ReplayMode& other : kModes) {
    others.emplace_back(other.flag);
  }
  for (const std::string_view other : others) {
    const bool is_varied_edit = std::string_view(mode.flag) == "vary" && other == "edit";
    if (other != mode.flag && request.Has(other) && !is_varied_edit) {
      return InvalidArgument(
          fmt::format("{} {}; leave {} out", FlagText(mode.flag), mode.does, FlagText(other)));
    }
  }
  const bool flow = request.replay.network == replayer::NetworkModel::kFlow;
  if (flow && mode.flow == FlowNetwork::kRefused) {
    return InvalidArgument(fmt::format(
        "{} does not support --network flow; leave one of the two out", FlagText(mode.flag)));
  }
  return flow || mode.flow != FlowNetwork::kNeeded
             ? OkStatus()
             : InvalidArgument(
                   fmt::format("{} needs --network flow, the only model in which jobs share links",
                               FlagText(mode.flag)));
}

Result<std::string> RunMode(const ReplayRequest& request) {
  if (!request.Has("vary") && (request.Has("csv") || request.Has("svg"))) {
    return InvalidArgument("--csv and --svg need --vary KEY:FROM:TO:STEPS");
  }
  for (const ReplayMode& mode : kModes) {
    if (request.Has(mode.flag)) {
      PRISM_RETURN_IF_ERROR(CheckMode(mode, request));
      return mode.run(request);
    }
  }
  PRISM_ASSIGN_OR_RETURN(const replayer::Summary summary,
                         ReplaySummary(request.loaded, request.replay, Warns::kOfNoEffect));
  PRISM_ASSIGN_OR_RETURN(
      const Explanation explanation,
      Explain(ReadExplanationChoice(request.arguments), request.loaded.graph, request.replay));
  return SummaryAndExplanation(request.loaded.graph, summary, explanation,
                               request.arguments.format());
}

Result<VerbOutput> RunReplay(const VerbArguments& arguments) {
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
    PRISM_RETURN_IF_ERROR(UseMeasuredKernels(table, &loaded.graph));
  }
  const graph::JobSpec& job = loaded.graph.job;
  options.seed = job.seed;
  PRISM_ASSIGN_OR_RETURN(replayer::ReplayOptions replay,
                         MakeReplayOptions(options, job, loaded.graph.cluster));
  PRISM_RETURN_IF_ERROR(CheckNetwork(options, job, loaded.graph.cluster));
  PRISM_RETURN_IF_ERROR(PlaceAlone(arguments, loaded.graph, &replay));
  VerbOutput output;
  PRISM_ASSIGN_OR_RETURN(output.text, RunMode({arguments, loaded, replay, edit_file}));
  return output;
}

}  // namespace

Verb ReplayVerb() {
  static const std::string notes =
      std::string(
          "If the run that wrote the graph had no perturbations, the analytic network and as\n"
          "many iterations as --iterations, the numbers are that run's, and --format json\n"
          "prints its summary.json byte for byte but for warnings that are not in the graph.\n"
          "prism report FOLDER replays any run as it was.\n"
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
        "CSV of measured kernels (kind, type, m, n, k, batch, seconds, source) to use instead of "
        "the model; repeatable",
        true},
       {"samples", "N", "off",
        "with jitter: p50, p90 and p99 of the iteration time over N seeds; mpirun spreads the "
        "seeds over its processes"},
       {"job", "GRAPH[:FIRST_NODE]", "none",
        "with --network flow: another job on the same network, from FIRST_NODE on or after the "
        "others; repeatable; prints each job's iteration time alone and together",
        true},
       {"placement", "packed|random|fragmented", "packed",
        "which nodes a job has: consecutive ones, any (by the seed), every second one; with --job: "
        "those of all jobs one behind the other, shuffled, taking turns"},
       {"gains", "", "off",
        "instead: the iteration time without compute, host, communication, each kind of "
        "communicator, each perturbation"},
       {"vary", "KEY:FROM:TO:STEPS", "none",
        "instead: the iteration time over values of one parameter of the graph's cluster, for the "
        "job or, with --edit FILE.toml, the edited job"},
       {"csv", "FILE", "none", "write what --vary prints as CSV"},
       {"svg", "FILE", "none", "with --vary: plot the iteration time"}}};
  for (const auto& more : {ReplayVerbOptions(), ExplanationOptions()}) {
    verb.spec.options.insert(verb.spec.options.end(), more.begin(), more.end());
  }
  verb.run = RunReplay;
  return verb;
}

}  // namespace prism::launch
