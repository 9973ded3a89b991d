#include "launch/emulate/run/check_report.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/base/intern.h"
#include "graph/base/json_writer.h"
#include "graph/base/units.h"
#include "graph/describe.h"

namespace prism::launch {
namespace {

// Up to this number all ranks of a job are recorded.
constexpr int64_t kAllRanks = 64;

// Each is taken to be like the nearest recorded one below it that the program does not single out.
std::vector<AssumedRanks> AssumedOf(const std::vector<slicer::RankCalls>& calls, int64_t world) {
  std::vector<AssumedRanks> assumed;
  Rank like = calls.front().rank;
  for (size_t i = 0; i < calls.size(); ++i) {
    const int64_t next = i + 1 < calls.size() ? calls[i + 1].rank.value() : world;
    like = calls[i].is_told ? like : calls[i].rank;
    AssumedRanks between = {.ranks = {}, .like = like, .reason = "not recorded"};
    for (int64_t rank = int64_t{calls[i].rank.value()} + 1; rank < next; ++rank) {
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

}  // namespace

bool ChecksProgram(const RunContext& context) {
  const Options& options = context.options;
  return !options.program.empty() && options.graph.empty() && !options.no_check &&
         options.host_factor == 0 && context.job.parallel.world_size() > 1;
}

std::vector<Rank> RanksToCheck(const RunContext& context) {
  if (!context.record_ranks.empty()) {
    return context.record_ranks;
  }
  const int64_t world = context.job.parallel.world_size();
  std::set<Rank> ranks;
  const auto add = [&](int64_t rank) {
    if (rank >= 0 && rank < world) {
      ranks.insert(Rank(static_cast<uint32_t>(rank)));
    }
  };
  for (int64_t rank = 0; world <= kAllRanks && rank < world; ++rank) {
    add(rank);
  }
  add(0);
  add(world - 1);
  for (int64_t stride = 1; stride < world; stride *= 2) {
    add(stride);
    add(world - 1 - stride);
  }
  return {ranks.begin(), ranks.end()};
}

CheckReport MakeCheckReport(const std::vector<slicer::RankCalls>& calls, int64_t world) {
  CheckReport report;
  report.result = slicer::CheckCalls(calls);
  report.world = world;
  report.recorded = static_cast<int64_t>(calls.size());
  report.checked_until = UntilOf(calls);
  report.assumed = AssumedOf(calls, world);
  for (const slicer::RankCalls& rank : calls) {
    for (const std::string& assumption : rank.assumptions) {
      InternValue(report.assumptions, assumption);
    }
  }
  report.sentence = report.is_well() ? fmt::format("no fault on {} of {}", report.recorded,
                                                   FormatCounted(world, "rank"))
                                     : report.result.faults.front().sentence;
  return report;
}

std::string CheckJson(const CheckReport& report) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  json.Field("verdict", report.is_well() ? "ok" : "fault");
  json.Field("sentence", report.sentence).Field("checked_until", report.checked_until);
  json.Key("assumed").BeginArray();
  for (const AssumedRanks& assumed : report.assumed) {
    json.BeginObject();
    json.ArrayField("ranks", graph::NumbersOf(assumed.ranks));
    json.Field("like", assumed.like.value()).Field("reason", assumed.reason).EndObject();
  }
  json.EndArray().ArrayField("assumptions", report.assumptions);
  json.ArrayField("warnings", report.result.warnings);
  json.Key("faults").BeginArray();
  for (const slicer::CheckFault& fault : report.result.faults) {
    WriteFault(fault, &json);
  }
  json.EndArray().EndObject();
  return text + "\n";
}

std::string CheckText(const CheckReport& report) {
  std::string text = report.is_well() ? report.sentence + "\n" : "";
  for (const slicer::CheckFault& fault : report.result.faults) {
    text += FaultText(fault);
  }
  text += fmt::format("  checked     until {}, {} of {} recorded\n", report.checked_until,
                      FormatCount(report.recorded), FormatCounted(report.world, "rank"));
  for (const std::string& warning : report.result.warnings) {
    text += fmt::format("  warning     {}\n", warning);
  }
  for (const std::string& assumption : report.assumptions) {
    text += fmt::format("  assumed     {}\n", assumption);
  }
  for (const AssumedRanks& assumed : report.assumed) {
    text += fmt::format("  assumed     {} to be like rank {}: {}\n",
                        graph::RanksText(assumed.ranks), assumed.like.value(), assumed.reason);
  }
  return text;
}

}  // namespace prism::launch
