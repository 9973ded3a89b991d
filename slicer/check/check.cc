#include "slicer/check/check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "graph/base/time.h"
#include "graph/describe.h"
#include "slicer/check/call_words.h"
#include "slicer/check/contradiction.h"
#include "slicer/check/deadlock.h"
#include "slicer/check/execution.h"

namespace prism::slicer {
namespace {

constexpr size_t kDroppedShown = 4;

std::optional<CheckFault> FirstFault(const Execution& execution) {
  if (!execution.differing().empty()) {
    return ContradictionOf(execution, execution.meetings()[execution.differing().front()]);
  }
  return FindDeadlock(execution);
}

// The one whose time-out is over first.
std::optional<CheckFault> TimeoutFault(const Execution& execution) {
  const auto first = std::ranges::min_element(execution.late(), {}, &Execution::Late::deadline_ns);
  if (first == execution.late().end()) {
    return std::nullopt;
  }
  const Execution::Late& late = *first;
  const Meeting& meeting = execution.meetings()[late.meeting];
  CheckFault fault = {.kind = FaultKind::kTimeout};
  const bool is_store = meeting.kind == CallKind::kStore;
  fault.sentence = fmt::format(
      "rank {} waits {:.6g} s in {}{} for rank {}, longer than the {} time-out of {:.6g} s",
      RankOf(execution, late.waiting).value(), SecondsFromNs(late.waited_ns),
      CallAtLine(execution, late.waiting),
      is_store ? "" : " of " + GroupText(execution, late.waiting),
      RankOf(execution, late.last).value(), is_store ? "store's" : "group's",
      SecondsFromNs(execution.TimeoutOf(late.waiting)));
  fault.ranks = {RankOf(execution, late.waiting), RankOf(execution, late.last)};
  std::ranges::sort(fault.ranks);
  for (const CallId id : meeting.calls) {
    if (id != late.last && !is_store) {
      fault.waiting.push_back(RankOf(execution, id));
    }
  }
  for (const Execution::Late& other : execution.late()) {
    if (is_store && other.last == late.last) {
      fault.waiting.push_back(RankOf(execution, other.waiting));
    }
  }
  std::ranges::sort(fault.waiting);
  fault.calls = {MakeFaultCall(execution, late.waiting), MakeFaultCall(execution, late.last)};
  fault.notes.push_back(WatchdogText(execution, late.waiting, meeting.number));
  return fault;
}

// Of ranks that fail, or are blocked, though nobody waits for them: beside them one that is well.
std::optional<CheckFault> FailureFault(const Execution& execution, CallsEnd end) {
  CheckFault fault = {.kind = end == CallsEnd::kBlocked ? FaultKind::kMissingCall
                                                        : FaultKind::kLeftEarly};
  std::vector<Rank> others;
  std::optional<uint32_t> first;
  std::optional<uint32_t> well;
  for (uint32_t rank = 0; rank < execution.ranks().size(); ++rank) {
    const bool is_one = execution.ranks()[rank].end == end;
    (is_one ? fault.ranks : others).push_back(execution.ranks()[rank].rank);
    std::optional<uint32_t>& named = is_one ? first : well;
    named = named.value_or(rank);
  }
  if (!first) {
    return std::nullopt;
  }
  const std::optional<CallId> last = LastCall(execution, *first);
  fault.sentence = fmt::format("{} {}", graph::RanksText(fault.ranks),
                               FailureText(execution, *first, fault.ranks.size() > 1));
  if (last && end == CallsEnd::kFailed) {
    fault.sentence +=
        fmt::format(", after {} of {}", CallAtLine(execution, *last), GroupText(execution, *last));
  }
  if (well) {
    const std::optional<CallId> other = LastCall(execution, *well);
    const bool is_further =
        other && (!last || SourceOf(execution, *other) != SourceOf(execution, *last));
    fault.sentence += is_further
                          ? fmt::format(", while {} to {}", RanksDo(others, "goes on", "go on"),
                                        CallAtLine(execution, *other))
                          : fmt::format(", while {} not", RanksDo(others, "does", "do"));
    if (other) {
      fault.calls.push_back(MakeFaultCall(execution, *other));
    }
  }
  if (last) {
    fault.calls.insert(fault.calls.begin(), MakeFaultCall(execution, *last));
  }
  if (end == CallsEnd::kBlocked) {
    fault.waiting = fault.ranks;
  }
  return fault;
}

std::optional<CheckFault> OverlapFault(const Execution& execution) {
  CheckFault fault = {.kind = FaultKind::kOverlap};
  for (uint32_t rank = 0; rank < execution.ranks().size(); ++rank) {
    const std::vector<Call>& calls = execution.ranks()[rank].calls;
    const auto call = std::ranges::find(calls, true, &Call::overlaps);
    if (call != calls.end()) {
      const CallId id = {rank, static_cast<uint32_t>(call - calls.begin())};
      fault.ranks.push_back(RankOf(execution, id));
      if (fault.calls.empty()) {
        fault.calls.push_back(MakeFaultCall(execution, id));
        fault.sentence = CallAtLine(execution, id);
      }
    }
  }
  if (fault.ranks.empty()) {
    return std::nullopt;
  }
  fault.sentence = fmt::format(
      "input and output of {} overlap on {}, other than NCCL allows: what it leaves is chance",
      fault.sentence, graph::RanksText(fault.ranks));
  return fault;
}

// NCCL refuses a communicator with two ranks on one GPU, unless whatever starts them gives each
// another one under the same number, which is not seen here.
void WarnOfDevices(const Execution& execution, std::vector<std::string>* warnings) {
  for (const Meeting& meeting : execution.meetings()) {
    std::map<std::pair<int32_t, int32_t>, std::vector<Rank>> by_device;
    for (const CallId id : meeting.calls) {
      if (meeting.kind == CallKind::kMakeCommunicator) {
        const CalledCommunicator& made = execution.CommunicatorOf(id);
        by_device[{made.node, made.device}].push_back(RankOf(execution, id));
      }
    }
    for (const auto& [device, ranks] : by_device) {
      if (device.second >= 0 && ranks.size() > 1) {
        const CallId first = meeting.calls.front();
        warnings->push_back(
            fmt::format("{} use device {} of their node in {} of {}: unless each process sees "
                        "another GPU, NCCL "
                        "ends them with \"Duplicate GPU detected\"; call "
                        "torch.cuda.set_device(int(os.environ[\"LOCAL_RANK\"]))",
                        graph::RanksText(ranks), device.second, CallAtLine(execution, first),
                        GroupText(execution, first)));
        return;
      }
    }
  }
}

// A rank that makes fewer groups than others may be none of their members.
void WarnOfGroups(std::span<const RankCalls> ranks, std::vector<std::string>* warnings) {
  const auto groups = [](const RankCalls& rank) {
    return std::ranges::count_if(rank.groups,
                                 [](const CalledGroup& group) { return group.number >= 0; });
  };
  std::vector<Rank> fewer;
  int64_t most = 0;
  for (const RankCalls& rank : ranks) {
    most = std::max<int64_t>(most, groups(rank));
  }
  for (const RankCalls& rank : ranks) {
    if (groups(rank) < most && rank.end == CallsEnd::kExit) {
      fewer.push_back(rank.rank);
    }
  }
  if (!fewer.empty()) {
    warnings->push_back(fmt::format(
        "{} fewer groups than the {} that others make; torch wants every rank to make all groups, "
        "members or not",
        RanksDo(fewer, "makes", "make"), most));
  }
}

// By what is said of them, in order.
using Told = std::vector<std::pair<std::string, std::vector<Rank>>>;

void Add(const std::string& text, Rank rank, Told* told) {
  const auto known = std::ranges::find(*told, text, &Told::value_type::first);
  std::vector<Rank>& ranks =
      known == told->end() ? told->emplace_back(text, std::vector<Rank>()).second : known->second;
  if (ranks.empty() || ranks.back() != rank) {
    ranks.push_back(rank);
  }
}

void WarnOfChanges(const Execution& execution, std::vector<std::string>* warnings) {
  Told told;
  for (const RankCalls& rank : execution.ranks()) {
    for (const CalledChange& change : rank.changes) {
      Add(fmt::format("{} ({})", change.call, LineText(rank.sources[change.source])), rank.rank,
          &told);
    }
  }
  for (size_t i = 0; i < std::min(told.size(), kDroppedShown); ++i) {
    warnings->push_back(fmt::format(
        "{} a tensor in place while {} uses it: what that reads or leaves is chance; call wait() "
        "of its handle first",
        RanksDo(told[i].second, "changes", "change"), told[i].first));
  }
}

// Legal with NCCL, and more often than not a handle that was forgotten.
void WarnOfDropped(const Execution& execution, std::vector<std::string>* warnings) {
  Told dropped;
  for (uint32_t rank = 0; rank < execution.ranks().size(); ++rank) {
    const RankCalls& calls = execution.ranks()[rank];
    for (uint32_t i = 0; i < calls.calls.size() && calls.end == CallsEnd::kExit; ++i) {
      if (!calls.calls[i].is_dropped) {
        continue;
      }
      Add(CallAtLine(execution, {rank, i}), calls.rank, &dropped);
    }
  }
  for (size_t i = 0; i < std::min(dropped.size(), kDroppedShown); ++i) {
    warnings->push_back(fmt::format(
        "{} for {}: what reads its result may come before it; call wait() of its handle",
        RanksDo(dropped[i].second, "never waits", "never wait"), dropped[i].first));
  }
}

}  // namespace

CheckResult CheckCalls(std::span<const RankCalls> ranks) {
  CheckResult result;
  Execution execution(ranks, /*buffers_sends=*/false);
  execution.Run();
  std::optional<CheckFault> fault = FirstFault(execution);
  if (fault && execution.differing().empty()) {
    Execution buffered(ranks, /*buffers_sends=*/true);
    buffered.Run();
    std::optional<CheckFault> still = FirstFault(buffered);
    if (!still) {
      result.warnings.push_back("only if NCCL buffers small sends does this go on: " +
                                fault->sentence);
    }
    fault = std::move(still);
  }
  // That others wait for a rank that is blocked is its consequence.
  if (!fault || fault->kind == FaultKind::kLeftEarly) {
    if (std::optional<CheckFault> blocked = FailureFault(execution, CallsEnd::kBlocked)) {
      fault = std::move(blocked);
    }
  }
  if (!fault) {
    fault = FailureFault(execution, CallsEnd::kFailed);
  }
  if (fault) {
    result.faults.push_back(*std::move(fault));
  }
  if (std::optional<CheckFault> late = TimeoutFault(execution)) {
    result.faults.push_back(*std::move(late));
  }
  if (std::optional<CheckFault> overlap = OverlapFault(execution)) {
    result.faults.push_back(*std::move(overlap));
  }
  WarnOfDevices(execution, &result.warnings);
  WarnOfGroups(ranks, &result.warnings);
  WarnOfChanges(execution, &result.warnings);
  WarnOfDropped(execution, &result.warnings);
  return result;
}

}  // namespace prism::slicer
