#include "slicer/check/check.h"

#include <algorithm>
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

CheckFault TimeoutFault(const Execution& execution, const Execution::Late& late) {
  const Meeting& meeting = execution.meetings()[late.meeting];
  const DurationNs timeout_ns = execution.ranks()[late.waiting.rank]
                                    .communicators[execution.CallOf(late.waiting).object]
                                    .timeout_ns;
  CheckFault fault = {.kind = FaultKind::kTimeout};
  fault.sentence = fmt::format(
      "rank {} waits {:.6g} s in {} of {} for rank {}, longer than the group's time-out of {:.6g} "
      "s",
      RankOf(execution, late.waiting).value(), SecondsFromNs(late.waited_ns),
      CallAtLine(execution, late.waiting), GroupText(execution, late.waiting),
      RankOf(execution, late.last).value(), SecondsFromNs(timeout_ns));
  fault.ranks = {RankOf(execution, late.waiting), RankOf(execution, late.last)};
  std::ranges::sort(fault.ranks);
  for (const CallId id : meeting.calls) {
    if (id != late.last) {
      fault.waiting.push_back(RankOf(execution, id));
    }
  }
  fault.calls = {MakeFaultCall(execution, late.waiting), MakeFaultCall(execution, late.last)};
  fault.notes.push_back("NCCL's watchdog would end the job: " +
                        WatchdogText(execution, late.waiting, meeting.number));
  return fault;
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

// Legal with NCCL, and more often than not a handle that was forgotten.
void WarnOfDropped(const Execution& execution, std::vector<std::string>* warnings) {
  std::vector<std::pair<std::string, std::vector<Rank>>> dropped;  // by call, in order
  for (uint32_t rank = 0; rank < execution.ranks().size(); ++rank) {
    const RankCalls& calls = execution.ranks()[rank];
    for (uint32_t i = 0; i < calls.calls.size() && calls.end == CallsEnd::kExit; ++i) {
      if (!calls.calls[i].is_dropped) {
        continue;
      }
      const std::string call = CallAtLine(execution, {rank, i});
      const auto known = std::ranges::find(dropped, call, &decltype(dropped)::value_type::first);
      std::vector<Rank>& ranks = known == dropped.end()
                                     ? dropped.emplace_back(call, std::vector<Rank>()).second
                                     : known->second;
      if (ranks.empty() || ranks.back() != calls.rank) {
        ranks.push_back(calls.rank);
      }
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
  std::optional<Execution::Late> late = execution.late();
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
  if (fault) {
    result.faults.push_back(*std::move(fault));
  }
  if (late) {
    result.faults.push_back(TimeoutFault(execution, *late));
  }
  WarnOfGroups(ranks, &result.warnings);
  WarnOfDropped(execution, &result.warnings);
  return result;
}

}  // namespace prism::slicer
