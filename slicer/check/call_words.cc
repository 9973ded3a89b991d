#include "slicer/check/call_words.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "graph/base/data_type.h"
#include "graph/base/split.h"
#include "graph/base/units.h"
#include "graph/describe.h"
#include "graph/program/collective_kinds.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;

int64_t ElementsOf(const graph::CollectiveShape& shape) {
  return shape.bytes / std::max<int64_t>(1, DataTypeBytes(shape.dtype));
}

// c10d's names, and whether the call's other buffer has one rank's part.
struct WorkName {
  CollectiveKind kind;
  const char* name;
  bool small_input = false;
  bool small_output = false;
};
constexpr WorkName kWorkNames[] = {
    {CollectiveKind::kAllReduce, "ALLREDUCE"},
    {CollectiveKind::kAllGather, "_ALLGATHER_BASE", true},
    {CollectiveKind::kReduceScatter, "_REDUCE_SCATTER_BASE", false, true},
    {CollectiveKind::kBroadcast, "BROADCAST"},
    {CollectiveKind::kReduce, "REDUCE"},
    {CollectiveKind::kAllToAll, "ALLTOALL_BASE"},
    {CollectiveKind::kGather, "GATHER", true},
    {CollectiveKind::kScatter, "SCATTER", false, true}};

std::string TransfersText(const Call& call) {
  const CalledTransfer& first = call.transfers.front();
  std::string text =
      fmt::format("{} rank {}", first.is_send ? "send to" : "receive from", first.peer.value());
  if (first.bytes >= 0) {
    text += fmt::format(" of {}", FormatCounted(first.bytes, "byte"));
  }
  return call.transfers.size() == 1
             ? text
             : fmt::format(
                   "{} and {}", text,
                   FormatCounted(static_cast<int64_t>(call.transfers.size()) - 1, "more message"));
}

const std::vector<Rank>& MembersOf(const Execution& execution, CallId id) {
  const Call& call = execution.CallOf(id);
  return call.kind == CallKind::kMakeGroup ? execution.ranks()[id.rank].groups[call.object].members
                                           : execution.CommunicatorOf(id).members;
}

// Of the last line as Python prints an exception, "[rank1]: ValueError: ...", the first sentence;
// else the last line.
std::string_view TellingLine(std::string_view text) {
  std::string_view telling;
  for (const std::string_view line : SplitAt(text, '\n')) {
    const std::string_view said =
        line.substr(line.starts_with("[rank") ? std::min(line.find(": ") + 2, line.size()) : 0);
    const std::string_view name = said.substr(0, said.find(": "));
    if (name.ends_with("Error") && name.find(' ') == name.npos) {
      telling = said.substr(0, said.find(". "));
    }
  }
  return telling.empty() ? text.substr(text.rfind('\n') + 1) : telling;
}

}  // namespace

const SourceLine& SourceOf(const Execution& execution, CallId id) {
  return execution.ranks()[id.rank].sources[execution.CallOf(id).source];
}

Rank RankOf(const Execution& execution, CallId id) {
  return execution.ranks()[id.rank].rank;
}

std::string CallText(const Execution& execution, CallId id) {
  const Call& call = execution.CallOf(id);
  switch (call.kind) {
    case CallKind::kHostWait:
      return "synchronisation";
    case CallKind::kMakeGroup:
      return "new_group";
    case CallKind::kMakeCommunicator:
      return "the creation of the communicator";
    case CallKind::kTransfers:
      return TransfersText(call);
    case CallKind::kStore:
      return execution.ranks()[id.rank].store_calls[call.object].text;
    case CallKind::kCollective:
      break;
  }
  if (call.is_barrier) {
    return "barrier";
  }
  std::string text = NameOf(graph::kCollectiveKindNames, call.shape.kind);
  if (call.shape.bytes >= 0) {
    text += fmt::format(" of {} {}", FormatCount(ElementsOf(call.shape)),
                        DataTypeName(call.shape.dtype));
  }
  if (graph::HasRoot(call.shape.kind)) {
    text += fmt::format(" with root {}", call.shape.root);
  }
  return text;
}

std::string GroupText(const Execution& execution, CallId id) {
  const RankCalls& rank = execution.ranks()[id.rank];
  const Call& call = execution.CallOf(id);
  if (call.kind == CallKind::kHostWait) {
    return "";
  }
  if (call.kind == CallKind::kStore) {
    return "all ranks";
  }
  const std::vector<Rank>& members = MembersOf(execution, id);
  const bool makes_group = call.kind == CallKind::kMakeGroup;
  const bool is_of_all = !rank.groups.empty() && rank.groups.front().members == members;
  if (is_of_all && (makes_group ? call.object == 0 : execution.CommunicatorOf(id).is_default)) {
    return "the default group";
  }
  if (!makes_group && execution.CommunicatorOf(id).is_cpu) {
    return fmt::format("the CPU group of {}", graph::RanksText(members));
  }
  const std::string name =
      makes_group || call.kind == CallKind::kTransfers ? "" : rank.communicators[call.object].name;
  return name.empty()
             ? fmt::format("the {}group of {}", is_of_all ? "new " : "", graph::RanksText(members))
             : fmt::format("group {} of {}", name, graph::RanksText(members));
}

std::string LineText(const SourceLine& source) {
  if (source.line == 0) {
    return "an unknown line";
  }
  const std::string file = std::filesystem::path(source.file).filename();
  return source.function == "<module>"
             ? fmt::format("{}:{}", file, source.line)
             : fmt::format("{}:{} in {}", file, source.line, source.function);
}

std::string CallAtLine(const Execution& execution, CallId id) {
  return fmt::format("{} ({})", CallText(execution, id), LineText(SourceOf(execution, id)));
}

FaultCall MakeFaultCall(const Execution& execution, CallId id) {
  return {RankOf(execution, id), CallText(execution, id), GroupText(execution, id),
          SourceOf(execution, id)};
}

std::string RanksDo(const std::vector<Rank>& ranks,
                    const std::string& one,
                    const std::string& many) {
  return fmt::format("{} {}", graph::RanksText(ranks), ranks.size() == 1 ? one : many);
}

std::optional<CallId> LastCall(const Execution& execution, uint32_t rank) {
  const std::vector<Call>& calls = execution.ranks()[rank].calls;
  const auto last =
      std::find_if(calls.rbegin(), calls.rend(), [](const Call& call) { return call.source > 0; });
  return last == calls.rend()
             ? std::nullopt
             : std::optional(CallId{rank, static_cast<uint32_t>(calls.rend() - last) - 1});
}

std::string FailureText(const Execution& execution, uint32_t rank, bool several) {
  const RankCalls& calls = execution.ranks()[rank];
  if (calls.end == CallsEnd::kBlocked) {
    const std::optional<CallId> last = LastCall(execution, rank);
    return fmt::format("{} for ever in {}, which no recorded rank sets", several ? "wait" : "waits",
                       last ? CallAtLine(execution, *last) : "a wait of the store");
  }
  const std::string first = calls.failure.substr(0, calls.failure.find("\n\n"));
  const std::string of_rank = fmt::format("the program of rank {} ", calls.rank.value());
  const size_t begin = first.starts_with(of_rank) ? of_rank.size() : 0;
  const std::string how = first.substr(begin, first.find(';') - begin);
  return first.find('\n') == first.npos ? how : fmt::format("{}: {}", how, TellingLine(first));
}

std::string WatchdogText(const Execution& execution, CallId id, uint32_t number) {
  const Call& call = execution.CallOf(id);
  if (call.kind != CallKind::kCollective && call.kind != CallKind::kMakeCommunicator &&
      call.kind != CallKind::kStore) {
    return "";
  }
  const int64_t ms = execution.TimeoutOf(id) / kNsPerMs;
  if (ms == 0) {
    return "";
  }
  if (call.kind == CallKind::kStore) {
    return fmt::format("the store would end the job: wait timeout after {}ms, keys: /{}", ms,
                       fmt::join(execution.ranks()[id.rank].store_calls[call.object].keys, ", /"));
  }
  const CalledCommunicator& communicator = execution.CommunicatorOf(id);
  if (call.kind == CallKind::kMakeCommunicator) {
    return fmt::format(
        "the store would end the job: [Rank {}] wait timeout after {}ms, for the key of NCCL's "
        "unique id",
        RankOf(execution, id).value(), ms);
  }
  if (communicator.is_cpu) {
    return fmt::format(
        "gloo would end the job: [Rank {}] Timed out waiting {}ms for the operation to complete",
        RankOf(execution, id).value(), ms);
  }
  const auto* const work = std::ranges::find(kWorkNames, call.shape.kind, &WorkName::kind);
  const int64_t all = ElementsOf(call.shape);
  const int64_t part = all / static_cast<int64_t>(communicator.members.size());
  return fmt::format(
      "NCCL's watchdog would end the job: [Rank {}] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum={}, OpType={}, NumelIn={}, NumelOut={}, Timeout(ms)={}) ran for {} "
      "milliseconds before timing out.",
      RankOf(execution, id).value(), number + 1, work->name, work->small_input ? part : all,
      work->small_output ? part : all, ms, ms);
}

}  // namespace prism::slicer
