// prism check: whether the ranks of a whole program fit together at target scale.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/describe.h"
#include "graph/validate/limits.h"
#include "launch/cli/verb.h"
#include "launch/emulate/run/calls_pass.h"
#include "launch/emulate/run/run_plan.h"
#include "launch/inputs/sandbox_list.h"
#include "launch/process/interrupt.h"
#include "launch/process/progress.h"
#include "slicer/check/check.h"

namespace prism::launch {
namespace {

// Up to this number all ranks of a job are recorded.
constexpr int64_t kAllRanks = 64;

struct CheckOptions {
  std::optional<int32_t> gpus;
  std::optional<int32_t> nproc_per_node;
  std::string cluster = "h100-8x";
  double seconds = 60;
  int32_t iterations = 0;
  std::string record_ranks;
};

// Ranks that are not recorded, and what they are taken to do.
struct Assumed {
  std::vector<Rank> ranks;
  Rank like;
  std::string reason;
};

struct CheckReport {
  slicer::CheckResult result;
  std::string sentence;
  std::string checked_until;
  std::vector<Assumed> assumed;
  size_t recorded = 0;
  int64_t world = 0;
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
  words.emplace_back("--");
  words.insert(words.end(), arguments.operands().begin(), arguments.operands().end());
  PRISM_ASSIGN_OR_RETURN(const CommandLine line, ParseCommandLine(words));
  PRISM_ASSIGN_OR_RETURN(RunContext context, PlanRun(line.options));
  context.tells_lines = true;
  PRISM_RETURN_IF_ERROR(FindPaths(&context));
  return context;
}

// All ranks of a small job. Of a large one the first and last ranks, of the job, of the first node
// and of halves, and as many again far from each other in every power of two: neighbours along each
// axis of a layout whose sizes are powers of two.
Result<std::vector<Rank>> RanksToRecord(const CheckOptions& options, const RunContext& context) {
  const int64_t world = context.job.parallel.world_size();
  if (!options.record_ranks.empty() && options.record_ranks != "all") {
    return NumberedRanks("--record-ranks", options.record_ranks, context.job);
  }
  std::set<Rank> ranks;
  const auto add = [&](int64_t rank) {
    if (rank >= 0 && rank < world) {
      ranks.insert(Rank(static_cast<uint32_t>(rank)));
    }
  };
  if (world <= kAllRanks || options.record_ranks == "all") {
    for (int64_t rank = 0; rank < world; ++rank) {
      add(rank);
    }
    return std::vector<Rank>(ranks.begin(), ranks.end());
  }
  add(0);
  add(world - 1);
  for (int64_t stride = 1; stride < world; stride *= 2) {
    add(stride);
    add(world - 1 - stride);
  }
  return std::vector<Rank>(ranks.begin(), ranks.end());
}

// Each is taken to be like the nearest recorded one below it.
std::vector<Assumed> AssumedRanks(const std::vector<Rank>& recorded, int64_t world) {
  std::vector<Assumed> assumed;
  for (size_t i = 0; i < recorded.size(); ++i) {
    const int64_t next = i + 1 < recorded.size() ? recorded[i + 1].value() : world;
    Assumed between = {.ranks = {}, .like = recorded[i], .reason = "not recorded"};
    for (int64_t rank = int64_t{recorded[i].value()} + 1; rank < next; ++rank) {
      between.ranks.emplace_back(static_cast<uint32_t>(rank));
    }
    if (!between.ranks.empty()) {
      assumed.push_back(std::move(between));
    }
  }
  return assumed;
}

std::string UntilOf(const std::vector<slicer::RankCalls>& ranks) {
  int32_t steps = 0;
  bool is_cut = false;
  for (const slicer::RankCalls& rank : ranks) {
    if (rank.end == slicer::CallsEnd::kCut) {
      steps = is_cut ? std::min(steps, rank.steps) : rank.steps;
      is_cut = true;
    }
  }
  return is_cut ? fmt::format("step {}", std::max(0, steps - 1)) : "exit";
}

void WriteFault(const slicer::CheckFault& fault, JsonWriter* json) {
  json->BeginObject();
  json->Field("kind", NameOf(slicer::kFaultKindNames, fault.kind));
  json->Field("sentence", fault.sentence);
  json->ArrayField("ranks", graph::NumbersOf(fault.ranks));
  json->ArrayField("waiting", graph::NumbersOf(fault.waiting));
  json->Key("calls").BeginArray();
  for (const slicer::FaultCall& call : fault.calls) {
    json->BeginObject();
    json->Field("rank", call.rank.value()).Field("call", call.call).Field("group", call.group);
    json->Field("file", call.source.file).Field("line", call.source.line);
    json->EndObject();
  }
  json->EndArray().ArrayField("notes", fault.notes);
  json->EndObject();
}

std::string ReportJson(const CheckReport& report) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("verdict", report.result.faults.empty() ? "ok" : "fault");
  json.Field("sentence", report.sentence).Field("checked_until", report.checked_until);
  json.Key("assumed").BeginArray();
  for (const Assumed& assumed : report.assumed) {
    json.BeginObject();
    json.ArrayField("ranks", graph::NumbersOf(assumed.ranks));
    json.Field("like", assumed.like.value()).Field("reason", assumed.reason).EndObject();
  }
  json.EndArray().ArrayField("warnings", report.result.warnings);
  json.Key("faults").BeginArray();
  for (const slicer::CheckFault& fault : report.result.faults) {
    WriteFault(fault, &json);
  }
  json.EndArray().EndObject();
  return text + "\n";
}

std::string FaultText(const slicer::CheckFault& fault) {
  std::string text = fmt::format("{}\n  kind        {}\n", fault.sentence,
                                 NameOf(slicer::kFaultKindNames, fault.kind));
  for (const slicer::FaultCall& call : fault.calls) {
    text +=
        fmt::format("  rank {:<6} {} of {}\n              {}:{} {}\n", call.rank.value(), call.call,
                    call.group, call.source.file, call.source.line, call.source.function);
  }
  if (!fault.waiting.empty()) {
    text += fmt::format("  waiting     {}\n", graph::RanksText(fault.waiting));
  }
  for (const std::string& note : fault.notes) {
    text += fmt::format("  note        {}\n", note);
  }
  return text;
}

std::string ReportText(const CheckReport& report) {
  std::string text = report.result.faults.empty() ? report.sentence + "\n" : "";
  for (const slicer::CheckFault& fault : report.result.faults) {
    text += FaultText(fault);
  }
  text += fmt::format("  checked     until {}, {} of {} recorded\n", report.checked_until,
                      FormatCount(static_cast<int64_t>(report.recorded)),
                      FormatCounted(report.world, "rank"));
  for (const std::string& warning : report.result.warnings) {
    text += fmt::format("  warning     {}\n", warning);
  }
  for (const Assumed& assumed : report.assumed) {
    text += fmt::format("  assumed     {} to be like rank {}: {}\n",
                        graph::RanksText(assumed.ranks), assumed.like.value(), assumed.reason);
  }
  return text;
}

Result<VerbOutput> RunCheck(const VerbArguments& arguments, const CheckOptions& options) {
  PRISM_ASSIGN_OR_RETURN(const RunContext context, PlanCheck(arguments, options));
  PRISM_ASSIGN_OR_RETURN(const std::vector<Rank> ranks, RanksToRecord(options, context));
  InstallInterruptHandlers();
  Progress progress("prism check", context.options.quiet);
  CallsPass pass(context, progress);
  PRISM_ASSIGN_OR_RETURN(
      const std::vector<slicer::RankCalls> calls,
      pass.Record(ranks, {.seconds = options.seconds, .steps = options.iterations}));
  progress.Clear();
  CheckReport report;
  report.result = slicer::CheckCalls(calls);
  report.world = context.job.parallel.world_size();
  report.recorded = calls.size();
  report.checked_until = UntilOf(calls);
  report.assumed = AssumedRanks(ranks, report.world);
  const bool is_well = report.result.faults.empty();
  for (const slicer::RankCalls& rank : calls) {
    if (is_well && rank.end == slicer::CallsEnd::kFailed) {
      return RunFailed(rank.failure);
    }
  }
  report.sentence = is_well ? fmt::format("no fault on {} of {}", report.recorded,
                                          FormatCounted(report.world, "rank"))
                            : report.result.faults.front().sentence;
  VerbOutput output;
  output.text = arguments.format() == OutputFormat::kJson ? ReportJson(report) : ReportText(report);
  output.gate = is_well ? OkStatus()
                        : RunFailed(fmt::format(
                              "the program has a fault: {}",
                              NameOf(slicer::kFaultKindNames, report.result.faults.front().kind)));
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
        "ranks that are recorded: all, numbers and ranges", "all up to 64"}},
      RunCheck);
}

}  // namespace prism::launch
