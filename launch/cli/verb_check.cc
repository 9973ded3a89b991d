// prism check: whether the ranks of a whole program fit together at target scale.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "graph/validate/limits.h"
#include "launch/cli/verb.h"
#include "launch/emulate/run/calls_pass.h"
#include "launch/emulate/run/check_report.h"
#include "launch/emulate/run/run_plan.h"
#include "launch/process/interrupt.h"
#include "launch/process/progress.h"
#include "slicer/check/check.h"

namespace prism::launch {
namespace {

struct CheckOptions {
  std::optional<int32_t> gpus;
  std::optional<int32_t> nproc_per_node;
  std::string cluster = "h100-8x";
  double seconds = 60;
  int32_t iterations = 0;
  std::string record_ranks;
  bool stand_in = false;
};

// As prism run would read them.
Result<RunContext> PlanCheck(const VerbArguments& arguments, const CheckOptions& options) {
  std::vector<std::string> words = {"--cluster", options.cluster};
  if (options.gpus) {
    words.insert(words.end(), {"--target-gpus", fmt::format("{}", *options.gpus)});
  }
  if (options.nproc_per_node) {
    words.insert(words.end(), {"--nproc-per-node", fmt::format("{}", *options.nproc_per_node)});
  }
  if (!options.record_ranks.empty()) {
    words.insert(words.end(), {"--record-ranks", options.record_ranks});
  }
  if (options.stand_in) {
    words.emplace_back("--stand-in");
  }
  words.emplace_back("--");
  words.insert(words.end(), arguments.operands().begin(), arguments.operands().end());
  PRISM_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(words));
  PRISM_ASSIGN_OR_RETURN(RunContext context, PlanRun(line.options));
  context.tells_lines = true;
  PRISM_RETURN_IF_ERROR(FindPaths(&context));
  return context;
}

Result<VerbOutput> RunCheck(const VerbArguments& arguments, const CheckOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const RunContext context, PlanCheck(arguments, options));
  InstallInterruptHandlers();
  Progress progress("prism check", context.options.quiet);
  RankStarter starter(context);
  CallsPass pass(context, starter, progress);
  PRISM_ASSIGN_OR_RETURN(const std::vector<slicer::RankCalls> calls,
                         pass.Record(RanksToCheck(context),
                                     {.seconds = options.seconds, .steps = options.iterations}));
  progress.Clear();
  const CheckReport report = MakeCheckReport(calls, context.job.parallel.world_size());
  VerbOutput output;
  output.text = arguments.format() == OutputFormat::kJson ? CheckJson(report) : CheckText(report);
  if (!report.is_well()) {
    const auto failed =
        std::ranges::find(calls, slicer::CallsEnd::kFailed, &slicer::RankCalls::end);
    output.gate =
        RunFailed(fmt::format("the program has a fault: {}{}",
                              NameOf(slicer::kFaultKindNames, report.result.faults.front().kind),
                              failed == calls.end() ? "" : fmt::format("\n{}", failed->failure)));
  }
  return output;
}

}  // namespace

Verb CheckVerb() {
  using C = CheckOptions;
  return MakeVerb<C>(
      {"check", "-- PROGRAM ARGS...",
       "compare what all ranks of a program do with each other, from its first group to its exit",
       "Each rank runs by itself at the target's size, without a GPU; then their groups, "
       "collectives,\n"
       "sends and receives are matched. A fault is a sentence, the lines of both sides and who "
       "waits\n"
       "for whom. Up to 64 ranks all are recorded; of a larger job those that differ from the "
       "first\n"
       "or last rank by a power of two. Of time only sleeps count. Exit code 1 with a fault.\n",
       1, 4096},
      {{"gpus", &C::gpus, WholeNumber(1, graph::kMaxRanks), "ranks of the job",
        "the launcher's number, else 8192"},
       {"nproc-per-node", &C::nproc_per_node, WholeNumber(1, graph::kMaxRanks), "ranks of a node",
        "the launcher's, else the GPUs of a node"},
       {"cluster", &C::cluster, Text("PRESET|FILE"), "what the ranks run on"},
       {"check-seconds", &C::seconds, NumberAbove0("S"),
        "how long a rank is followed that does not end before, of its own run"},
       {"check-iterations", &C::iterations, WholeNumber(0, std::numeric_limits<int32_t>::max()),
        "steps that ranks are followed for", "until every kind of step was seen twice"},
       {"record-ranks", &C::record_ranks, Text("all|LIST"),
        "ranks that are recorded: all, numbers and ranges", "all up to 64"},
       {"stand-in", &C::stand_in, Switch(), "let absent files stand as with prism run"}},
      RunCheck);
}

}  // namespace prism::launch
