// prism replay: the timeline of a graph, computed again. Without --perturb it gives the numbers of
// the run that wrote the graph.
#include <string>
#include <utility>

#include "launch/options/perturbation.h"
#include "launch/verbs/replay_summary.h"
#include "launch/verbs/verb.h"
#include "replayer/report/json.h"
#include "replayer/report/text.h"

namespace prism::launch {
namespace {

Result<VerbOutput> Run(const VerbArguments& arguments) {
  Options options;
  options.perturb = arguments.Texts("perturb");
  int64_t iterations = options.iterations;
  PRISM_RETURN_IF_ERROR(arguments.ReadInt("iterations", 1, 1000, &iterations));
  options.iterations = static_cast<int32_t>(iterations);
  PRISM_ASSIGN_OR_RETURN(const LoadedGraph loaded, LoadValidGraph(arguments.operands().front()));
  const graph::JobSpec& job = loaded.graph.job;
  options.seed = job.seed;
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayOptions replay, MakeReplayOptions(options, job));
  PRISM_ASSIGN_OR_RETURN(const replayer::Summary summary, ReplaySummary(loaded, replay));
  VerbOutput output;
  output.text = arguments.format() == OutputFormat::kJson ? replayer::SummaryJson(summary)
                                                          : replayer::SummaryText(summary, {});
  return output;
}

}  // namespace

Verb ReplayVerb() {
  Verb verb;
  verb.spec = {"replay",
               "GRAPH",
               "compute the timeline of all ranks again",
               "Without --perturb the numbers are those of the run that wrote the graph, and\n"
               "--format json gives the bytes of its summary.json.\n",
               1,
               1,
               {{"perturb", "SPEC", "none",
                 "straggler:RANKS:FACTOR, link:NODE-NODE:FACTOR, kill:RANK@ITERATION, "
                 "late:RANK:SECONDS or jitter:FRACTION; repeatable"},
                {"iterations", "N", "3", "iterations replayed; the last gives the numbers"}}};
  verb.run = Run;
  return verb;
}

}  // namespace prism::launch
