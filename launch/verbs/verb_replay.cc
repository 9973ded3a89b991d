// prism replay: the timeline of a graph, computed again. Without --perturb it gives the numbers of
// the run that wrote the graph.
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/file.h"
#include "launch/options/perturbation.h"
#include "launch/verbs/iteration_samples.h"
#include "launch/verbs/replay_difference.h"
#include "launch/verbs/replay_summary.h"
#include "launch/verbs/verb.h"
#include "replayer/report/json.h"
#include "replayer/report/text.h"

namespace prism::launch {
namespace {

// A perturbation a line; what follows a # says why.
Status ReadEdits(const std::string& path, std::vector<std::string>* perturb) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      perturb->push_back(word);
    }
  }
  return OkStatus();
}

Result<VerbOutput> Run(const VerbArguments& arguments) {
  Options options;
  options.perturb = arguments.Texts("perturb");
  std::string edit_file;
  for (const std::string& path : arguments.Texts("edit")) {
    if (!path.ends_with(".toml")) {
      PRISM_RETURN_IF_ERROR(ReadEdits(path, &options.perturb));
    } else if (!std::exchange(edit_file, path).empty()) {
      return InvalidArgument("--edit takes one .toml file");
    }
  }
  int64_t iterations = options.iterations;
  PRISM_RETURN_IF_ERROR(arguments.ReadInt("iterations", 1, 1000, &iterations));
  options.iterations = static_cast<int32_t>(iterations);
  PRISM_ASSIGN_OR_RETURN(const LoadedGraph loaded, LoadValidGraph(arguments.operands().front()));
  const graph::JobSpec& job = loaded.graph.job;
  options.seed = job.seed;
  PRISM_ASSIGN_OR_RETURN(const replayer::ReplayOptions replay, MakeReplayOptions(options, job));
  VerbOutput output;
  if (!edit_file.empty()) {
    if (arguments.Has("samples") || arguments.Has("gains")) {
      return InvalidArgument("--edit FILE.toml compares two replays; leave --samples, --gains out");
    }
    PRISM_ASSIGN_OR_RETURN(output.text,
                           EditDifference(loaded.graph, replay, edit_file, arguments.format()));
    return output;
  }
  if (arguments.Has("samples")) {
    int64_t count = 0;
    PRISM_RETURN_IF_ERROR(arguments.ReadInt("samples", 1, 1'000'000, &count));
    PRISM_ASSIGN_OR_RETURN(MpiSession session, MpiSession::Start());
    PRISM_ASSIGN_OR_RETURN(const IterationSamples samples,
                           SampleIterations(session, loaded.graph, replay, count));
    output.text = SamplesText(samples, arguments.format());
    return output;
  }
  if (arguments.Has("gains")) {
    PRISM_ASSIGN_OR_RETURN(output.text, Gains(loaded.graph, replay, arguments.format()));
    return output;
  }
  PRISM_ASSIGN_OR_RETURN(const replayer::Summary summary, ReplaySummary(loaded, replay));
  output.text = arguments.format() == OutputFormat::kJson ? replayer::SummaryJson(summary)
                                                          : replayer::SummaryText(summary, {});
  return output;
}

}  // namespace

Verb ReplayVerb() {
  Verb verb;
  verb.spec = {
      "replay",
      "GRAPH",
      "compute the timeline of all ranks again",
      "Without --perturb the numbers are those of the run that wrote the graph, and\n"
      "--format json gives the bytes of its summary.json.\n",
      1,
      1,
      {{"perturb", "SPEC", "none",
        "straggler:RANKS:FACTOR, link:NODE-NODE:FACTOR, kill:RANK@ITERATION, "
        "late:RANK:SECONDS or jitter:FRACTION; repeatable"},
       {"edit", "FILE", "none",
        "perturbations from a file, one a line, # for comments; FILE.toml: kernels, ops, cluster, "
        "algorithms and placement to change, compared with the job as it is"},
       {"samples", "N", "off",
        "with jitter: p50, p90 and p99 of the iteration time over N seeds, which mpirun "
        "spreads over its processes"},
       {"gains", "", "off",
        "the iteration time without compute, the host, communication, each family of "
        "communicators, each perturbation"},
       {"iterations", "N", "3", "iterations replayed; the last gives the numbers"}}};
  verb.run = Run;
  return verb;
}

}  // namespace prism::launch
