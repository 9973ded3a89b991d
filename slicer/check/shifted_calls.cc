#include "slicer/check/shifted_calls.h"

#include <algorithm>

#include <fmt/format.h>

#include "slicer/check/call_words.h"

namespace prism::slicer {
namespace {

constexpr size_t kLookAhead = 3;  // calls that have to agree behind a shift

bool AreAlike(const Execution& execution, CallId a, CallId b) {
  const Call& one = execution.CallOf(a);
  const Call& other = execution.CallOf(b);
  return one.shape == other.shape && one.is_barrier == other.is_barrier &&
         SourceOf(execution, a) == SourceOf(execution, b);
}

// As many as there are, at least one.
bool Agree(const Execution& execution, std::span<const CallId> own, std::span<const CallId> other) {
  const size_t count = std::min({own.size(), other.size(), kLookAhead});
  for (size_t i = 0; i < count; ++i) {
    if (!AreAlike(execution, own[i], other[i])) {
      return false;
    }
  }
  return count > 0;
}

std::span<const CallId> From(const std::vector<CallId>& calls, size_t at) {
  return std::span(calls).subspan(std::min(at, calls.size()));
}

}  // namespace

std::vector<CallId> CallsLike(const Execution& execution, CallId id, uint32_t rank) {
  std::vector<CallId> calls;
  const Call& call = execution.CallOf(id);
  if (call.kind != CallKind::kCollective) {
    return calls;
  }
  const uint64_t identity = execution.ranks()[id.rank].communicators[call.object].identity;
  const RankCalls& other = execution.ranks()[rank];
  for (uint32_t i = 0; i < other.calls.size(); ++i) {
    if (other.calls[i].kind == CallKind::kCollective &&
        other.communicators[other.calls[i].object].identity == identity) {
      calls.push_back({rank, i});
    }
  }
  return calls;
}

Shift ShiftAt(const Execution& execution,
              const std::vector<CallId>& own,
              const std::vector<CallId>& other,
              size_t at) {
  const auto shape = [&](CallId id) { return execution.CallOf(id).shape; };
  const size_t behind = at + 2;
  if (behind <= std::min(own.size(), other.size()) && shape(own[at]) == shape(other[at + 1]) &&
      shape(own[at + 1]) == shape(other[at]) &&
      ((own.size() == behind && other.size() == behind) ||
       Agree(execution, From(own, behind), From(other, behind)))) {
    return Shift::kSwapped;
  }
  const bool less = Agree(execution, From(own, at), From(other, at + 1));
  const bool more = Agree(execution, From(own, at + 1), From(other, at));
  return less == more ? Shift::kNone : less ? Shift::kLeftOut : Shift::kOneMore;
}

void AddShift(const Execution& execution, CallId id, uint32_t rank, CheckFault* fault) {
  const std::vector<CallId> own = CallsLike(execution, id, rank);
  const std::vector<CallId> waiting = CallsLike(execution, id, id.rank);
  const auto differ = [&](size_t i) {
    return SourceOf(execution, own[i]) != SourceOf(execution, waiting[i]);
  };
  const size_t both = std::min(own.size(), waiting.size());
  size_t at = 0;
  while (at < both && !differ(at)) {
    ++at;
  }
  if (at == both || ShiftAt(execution, own, waiting, at) != Shift::kLeftOut) {
    at = own.size();
    while (at > 0 && at <= waiting.size() && differ(at - 1)) {
      --at;
    }
  }
  if (at == own.size() || at >= waiting.size()) {
    return;
  }
  fault->calls.push_back(MakeFaultCall(execution, waiting[at]));
  if (at + 1 < own.size()) {
    fault->calls.push_back(MakeFaultCall(execution, own[at]));
  }
  fault->notes.push_back(
      fmt::format("before, {} of rank {} met {} of rank {}{}", CallAtLine(execution, waiting[at]),
                  RankOf(execution, waiting[at]).value(), CallAtLine(execution, own[at]),
                  RankOf(execution, own[at]).value(),
                  ShiftAt(execution, own, waiting, at) == Shift::kLeftOut
                      ? ", which does not make the former call"
                      : ""));
}

}  // namespace prism::slicer
