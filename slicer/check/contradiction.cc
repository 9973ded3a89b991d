#include "slicer/check/contradiction.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/data_type.h"
#include "graph/base/units.h"
#include "graph/describe.h"
#include "graph/program/collective_kinds.h"
#include "slicer/check/call_words.h"
#include "slicer/check/deadlock.h"
#include "slicer/check/shifted_calls.h"

namespace prism::slicer {
namespace {

constexpr size_t kPartsShown = 4;

// Calls that are equal.
using Part = std::vector<CallId>;
using Equal = std::function<bool(CallId a, CallId b)>;

// The largest first; among equally large ones that of the lowest rank.
std::vector<Part> PartsOf(const Meeting& meeting, const Equal& equal) {
  std::vector<Part> parts;
  for (const CallId id : meeting.calls) {
    const auto part =
        std::ranges::find_if(parts, [&](const Part& known) { return equal(known.front(), id); });
    if (part == parts.end()) {
      parts.push_back({id});
    } else {
      part->push_back(id);
    }
  }
  std::ranges::stable_sort(parts, std::greater(), &Part::size);
  return parts;
}

std::vector<Rank> RanksOf(const Execution& execution, const Part& part) {
  std::vector<Rank> ranks;
  std::ranges::transform(part, std::back_inserter(ranks),
                         [&](CallId id) { return RankOf(execution, id); });
  return ranks;
}

// "ranks 0-6 call X (line), rank 7 calls Y (line)", the odd ones first.
std::string PartsText(const Execution& execution,
                      const std::vector<Part>& parts,
                      const std::pair<std::string, std::string>& verb) {
  std::string text;
  const size_t shown = std::min(parts.size(), kPartsShown);
  for (size_t i = shown; i-- > 0;) {
    const CallId id = parts[i].front();
    const bool groups = execution.CallOf(id).kind == CallKind::kMakeGroup;
    text += fmt::format(
        "{}{} {}", text.empty() ? "" : ", ",
        RanksDo(RanksOf(execution, parts[i]), verb.first, verb.second),
        groups ? fmt::format("{} ({})", GroupText(execution, id), LineText(SourceOf(execution, id)))
               : CallAtLine(execution, id));
  }
  return parts.size() == shown
             ? text
             : fmt::format("{}, and so on ({} different ones)", text, parts.size());
}

FaultKind KindOf(const Call& odd_call, const Call& usual_call) {
  const graph::CollectiveShape& odd = odd_call.shape;
  const graph::CollectiveShape& usual = usual_call.shape;
  if (odd.kind != usual.kind || odd_call.is_barrier != usual_call.is_barrier) {
    return FaultKind::kOrder;
  }
  if (odd.root != usual.root) {
    return FaultKind::kRoot;
  }
  const int64_t odd_elements = odd.bytes / std::max<int64_t>(1, DataTypeBytes(odd.dtype));
  const int64_t elements = usual.bytes / std::max<int64_t>(1, DataTypeBytes(usual.dtype));
  return odd.dtype != usual.dtype && odd_elements == elements ? FaultKind::kType
         : odd.bytes != usual.bytes                           ? FaultKind::kSize
                                                              : FaultKind::kType;
}

// What is wrong, in words: "ranks disagree about the ...".
std::string WhatDiffers(FaultKind kind) {
  switch (kind) {
    case FaultKind::kSize:
      return "sizes differ";
    case FaultKind::kType:
      return "element types or reductions differ";
    case FaultKind::kRoot:
      return "roots differ";
    default:
      return "ranks make different calls";
  }
}

// What is wrong, in words, if one explains it.
std::string AddShiftNote(const Execution& execution,
                         const std::vector<Part>& parts,
                         CheckFault* fault) {
  const CallId odd = parts.back().front();
  const CallId usual = parts.front().front();
  const std::vector<CallId> own = CallsLike(execution, odd, odd.rank);
  const std::vector<CallId> other = CallsLike(execution, odd, usual.rank);
  const auto at = static_cast<size_t>(std::ranges::find(own, odd) - own.begin());
  const Shift shift = ShiftAt(execution, own, other, at);
  if (shift == Shift::kLeftOut) {
    fault->kind = FaultKind::kMissingCall;
    fault->notes.push_back(
        fmt::format("rank {} goes on as if it had made {}: it leaves that call out",
                    RankOf(execution, odd).value(), CallAtLine(execution, usual)));
    return RanksDo(RanksOf(execution, parts.back()), "leaves", "leave") + " out a call";
  } else if (shift == Shift::kOneMore) {
    fault->kind = FaultKind::kMissingCall;
    fault->notes.push_back(
        fmt::format("rank {} goes on as the others do after {}, which only it calls",
                    RankOf(execution, odd).value(), CallAtLine(execution, odd)));
    return RanksDo(RanksOf(execution, parts.back()), "makes", "make") + " a call more";
  } else if (shift == Shift::kSwapped) {
    fault->kind = FaultKind::kOrder;
    fault->notes.push_back(fmt::format("rank {} makes the same two calls in the other order",
                                       RankOf(execution, odd).value()));
  }
  return WhatDiffers(fault->kind);
}

CheckFault CollectiveFault(const Execution& execution,
                           const Meeting& meeting,
                           std::vector<Part>* parts) {
  *parts = PartsOf(meeting, [&](CallId a, CallId b) {
    return execution.CallOf(a).shape == execution.CallOf(b).shape;
  });
  CheckFault fault;
  fault.kind =
      KindOf(execution.CallOf(parts->back().front()), execution.CallOf(parts->front().front()));
  const std::string what = AddShiftNote(execution, *parts, &fault);
  fault.sentence = fmt::format("{} in call {} of {}: {}", what, meeting.number + 1,
                               GroupText(execution, meeting.calls.front()),
                               PartsText(execution, *parts, {"calls", "call"}));
  return fault;
}

CheckFault GroupFault(const Execution& execution,
                      const Meeting& meeting,
                      std::vector<Part>* parts) {
  *parts = PartsOf(meeting, [&](CallId a, CallId b) {
    const auto& members = [&](CallId id) -> const std::vector<Rank>& {
      return execution.ranks()[id.rank].groups[execution.CallOf(id).object].members;
    };
    return members(a) == members(b);
  });
  CheckFault fault = {.kind = FaultKind::kGroup};
  fault.sentence = fmt::format(
      "ranks call new_group for different groups: as group number {} {}; torch wants every rank to "
      "make all groups in one order, members or not",
      meeting.number, PartsText(execution, *parts, {"makes", "make"}));
  return fault;
}

CheckFault MessageFault(const Execution& execution,
                        const Meeting& meeting,
                        std::vector<Part>* parts) {
  *parts = {{meeting.calls.front()}, {meeting.calls.back()}};
  const CallId sender = *meeting.sender;
  const CallId receiver =
      meeting.calls.front() == sender ? meeting.calls.back() : meeting.calls.front();
  CheckFault fault = {.kind = FaultKind::kSize};
  fault.sentence = fmt::format(
      "sizes differ in message {} from rank {} to rank {}: {} are sent ({}) and {} received ({})",
      meeting.number + 1, RankOf(execution, sender).value(), RankOf(execution, receiver).value(),
      FormatCounted(meeting.sent_bytes, "byte"), LineText(SourceOf(execution, sender)),
      FormatCounted(meeting.received_bytes, "byte"), LineText(SourceOf(execution, receiver)));
  return fault;
}

}  // namespace

CheckFault ContradictionOf(const Execution& execution, const Meeting& meeting) {
  std::vector<Part> parts;
  CheckFault fault =
      meeting.kind == CallKind::kCollective  ? CollectiveFault(execution, meeting, &parts)
      : meeting.kind == CallKind::kMakeGroup ? GroupFault(execution, meeting, &parts)
                                             : MessageFault(execution, meeting, &parts);
  for (size_t i = std::min(parts.size(), kPartsShown); i-- > 0;) {
    fault.calls.push_back(MakeFaultCall(execution, parts[i].front()));
  }
  // All that do not do as most: everybody, if there is no majority.
  const bool has_majority = parts.front().size() * 2 > meeting.calls.size();
  for (size_t i = has_majority ? 1 : 0; i < parts.size(); ++i) {
    const std::vector<Rank> ranks = RanksOf(execution, parts[i]);
    fault.ranks.insert(fault.ranks.end(), ranks.begin(), ranks.end());
  }
  std::ranges::sort(fault.ranks);
  fault.waiting = WaitingRanks(execution);
  return fault;
}

}  // namespace prism::slicer
