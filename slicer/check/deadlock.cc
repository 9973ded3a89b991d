// A search in depth through "waits for": from a call that has begun to the calls of members that
// have not, from a call that has not to the one that has to end before it.
#include "slicer/check/deadlock.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/units.h"
#include "graph/describe.h"
#include "slicer/check/call_words.h"
#include "slicer/check/shifted_calls.h"

namespace prism::slicer {
namespace {

constexpr size_t kShownOfCycle = 4;  // calls

// Members that will never begin their part of a meeting, since they have ended.
struct Left {
  uint32_t meeting = 0;
  std::vector<uint32_t> ranks = {};
};

class Search {
 public:
  explicit Search(const Execution& execution) : execution_(execution) {}

  // True once something is found.
  bool From(CallId id) {
    const auto [entry, is_new] = on_path_.emplace(id, true);
    if (!is_new) {
      if (entry->second) {
        const auto begin = std::ranges::find(path_, id);
        cycle_.assign(begin, path_.end());
      }
      return !cycle_.empty();
    }
    path_.push_back(id);
    const bool found = execution_.HasBegun(id) ? FromBegun(id) : FromObstacle(id);
    path_.pop_back();
    on_path_[id] = false;
    return found;
  }

  [[nodiscard]] const std::optional<Left>& left() const { return left_; }
  [[nodiscard]] const std::vector<CallId>& cycle() const { return cycle_; }

 private:
  bool FromObstacle(CallId id) {
    const std::optional<CallId> obstacle = execution_.Obstacle(id);
    return obstacle && From(*obstacle);
  }

  bool FromBegun(CallId id) {
    return std::ranges::any_of(execution_.MeetingsOf(id), [&](uint32_t number) {
      const Meeting& meeting = execution_.meetings()[number];
      return meeting.end_ns < 0 && meeting.kind != CallKind::kMakeGroup && FromMeeting(number);
    });
  }

  bool FromMeeting(uint32_t number) {
    const Meeting& meeting = execution_.meetings()[number];
    Left left = {.meeting = number};
    std::vector<CallId> later;
    for (const uint32_t rank : meeting.expected) {
      const auto call = std::ranges::find(meeting.calls, rank, &CallId::rank);
      if (call != meeting.calls.end() && !execution_.HasBegun(*call)) {
        later.push_back(*call);
      } else if (call == meeting.calls.end() && execution_.ranks()[rank].end != CallsEnd::kCut) {
        left.ranks.push_back(rank);
      }
    }
    if (std::ranges::any_of(later, [&](CallId id) { return From(id); })) {
      return true;  // what is behind it comes first
    }
    if (!left.ranks.empty()) {
      left_ = std::move(left);
    }
    return left_.has_value();
  }

  const Execution& execution_;
  std::map<CallId, bool> on_path_;  // of all calls that were looked at
  std::vector<CallId> path_;
  std::optional<Left> left_;
  std::vector<CallId> cycle_;
};

std::vector<Rank> NamesOf(const Execution& execution, const std::vector<uint32_t>& ranks) {
  std::vector<Rank> names;
  std::ranges::transform(ranks, std::back_inserter(names),
                         [&](uint32_t rank) { return execution.ranks()[rank].rank; });
  return names;
}

// The last thing that the rank calls like `id`, as far as it has a line.
std::optional<CallId> LastLike(const Execution& execution, CallId id, uint32_t rank) {
  const std::vector<CallId> calls = CallsLike(execution, id, rank);
  return calls.empty() ? std::nullopt : std::optional(calls.back());
}

// Where it waits, if it has not left, but goes no further itself.
std::optional<CallId> OpenCall(const Execution& execution, uint32_t index) {
  std::optional<CallId> open;
  for (uint16_t stream = 0; stream < execution.StreamsOf(index); ++stream) {
    const std::optional<CallId> first = execution.FirstOpen(index, stream);
    const bool is_said = open && execution.CallOf(*open).source > 0;
    open = first && !is_said ? first : open;
  }
  return open;
}

std::string EndOf(const Execution& execution, uint32_t index, bool several) {
  const RankCalls& rank = execution.ranks()[index];
  if (rank.end != CallsEnd::kExit) {
    return FailureText(execution, index, several);
  }
  if (OpenCall(execution, index)) {
    return several ? "never make this call" : "never makes this call";
  }
  const std::string steps =
      rank.steps == 0 ? "" : fmt::format(" after {}", FormatCounted(rank.steps, "step"));
  return fmt::format("{} left{} without this call", several ? "have" : "has", steps);
}

CheckFault LeftFault(const Execution& execution, const Left& left) {
  const Meeting& meeting = execution.meetings()[left.meeting];
  std::vector<CallId> waiting;
  std::ranges::copy_if(meeting.calls, std::back_inserter(waiting),
                       [&](CallId id) { return execution.HasBegun(id); });
  PRISM_CHECK(!waiting.empty() && !left.ranks.empty());
  const CallId first = waiting[0];
  std::vector<uint32_t> there;
  std::ranges::transform(waiting, std::back_inserter(there), &CallId::rank);
  const std::vector<Rank> gone = NamesOf(execution, left.ranks);
  const uint32_t first_gone = left.ranks.front();
  const std::optional<CallId> meanwhile = execution.ranks()[first_gone].end == CallsEnd::kExit
                                              ? OpenCall(execution, first_gone)
                                              : std::nullopt;
  const bool has_left = !meanwhile;
  CheckFault fault = {.kind = has_left ? FaultKind::kLeftEarly : FaultKind::kMissingCall};
  fault.sentence = fmt::format(
      "{} for ever in {} of {}: {} {}", RanksDo(NamesOf(execution, there), "waits", "wait"),
      CallAtLine(execution, first), GroupText(execution, first), graph::RanksText(gone),
      EndOf(execution, first_gone, gone.size() > 1));
  fault.ranks = NamesOf(execution, there);
  fault.ranks.insert(fault.ranks.end(), gone.begin(), gone.end());
  fault.calls.push_back(MakeFaultCall(execution, first));
  for (const uint32_t rank : left.ranks) {
    const std::optional<CallId> last = LastLike(execution, first, rank);
    if (last && std::ranges::none_of(fault.calls, [&](const FaultCall& call) {
          return call.source == SourceOf(execution, *last) && &call != &fault.calls.front();
        })) {
      fault.calls.push_back(MakeFaultCall(execution, *last));
      fault.notes.push_back(fmt::format("the last such call of rank {} is {}",
                                        RankOf(execution, *last).value(),
                                        CallAtLine(execution, *last)));
    }
  }
  if (meanwhile && execution.CallOf(*meanwhile).source > 0) {
    fault.calls.push_back(MakeFaultCall(execution, *meanwhile));
    fault.notes.push_back(
        fmt::format("rank {} waits in {} of {} instead", RankOf(execution, *meanwhile).value(),
                    CallAtLine(execution, *meanwhile), GroupText(execution, *meanwhile)));
  }
  AddShift(execution, first, left.ranks.front(), &fault);
  if (std::string text = WatchdogText(execution, first, meeting.number); !text.empty()) {
    fault.notes.push_back(std::move(text));
  }
  return fault;
}

CheckFault CycleFault(const Execution& execution, const std::vector<CallId>& cycle) {
  CheckFault fault = {.kind = FaultKind::kCycle};
  std::vector<CallId> begun;
  std::ranges::copy_if(cycle, std::back_inserter(begun),
                       [&](CallId id) { return execution.HasBegun(id); });
  fault.sentence = "ranks wait for each other in a circle: ";
  for (size_t i = 0; i < begun.size(); ++i) {
    const CallId next = begun[(i + 1) % begun.size()];
    fault.ranks.push_back(RankOf(execution, begun[i]));
    if (i >= kShownOfCycle) {
      continue;
    }
    fault.sentence +=
        fmt::format("{}rank {} waits in {} of {} for rank {}", i == 0 ? "" : ", ",
                    RankOf(execution, begun[i]).value(), CallAtLine(execution, begun[i]),
                    GroupText(execution, begun[i]), RankOf(execution, next).value());
    fault.calls.push_back(MakeFaultCall(execution, begun[i]));
  }
  if (begun.size() > kShownOfCycle) {
    fault.sentence += fmt::format(", and so on ({} ranks)", begun.size());
  }
  if (!begun.empty()) {
    const uint32_t meeting = execution.MeetingsOf(begun.front()).front();
    std::string text = WatchdogText(execution, begun.front(), execution.meetings()[meeting].number);
    if (!text.empty()) {
      fault.notes.push_back(std::move(text));
    }
  }
  return fault;
}

template <typename Function>
void ForEachOpenCall(const Execution& execution, const Function& function) {
  for (uint32_t rank = 0; rank < execution.ranks().size(); ++rank) {
    for (uint16_t stream = 0; stream < execution.StreamsOf(rank); ++stream) {
      const std::optional<CallId> open = execution.FirstOpen(rank, stream);
      if (open && execution.HasBegun(*open) && function(*open)) {
        return;
      }
    }
  }
}

}  // namespace

std::vector<Rank> WaitingRanks(const Execution& execution) {
  std::vector<Rank> waiting;
  ForEachOpenCall(execution, [&](CallId id) {
    if (waiting.empty() || waiting.back() != RankOf(execution, id)) {
      waiting.push_back(RankOf(execution, id));
    }
    return false;
  });
  return waiting;
}

std::optional<CheckFault> FindDeadlock(const Execution& execution) {
  Search search(execution);
  bool found = false;
  ForEachOpenCall(execution, [&](CallId id) {
    return found = !execution.CallOf(id).is_of_daemon && search.From(id);
  });
  if (!found) {
    return std::nullopt;
  }
  CheckFault fault =
      search.left() ? LeftFault(execution, *search.left()) : CycleFault(execution, search.cycle());
  std::ranges::sort(fault.ranks);
  fault.ranks.erase(std::unique(fault.ranks.begin(), fault.ranks.end()), fault.ranks.end());
  fault.waiting = WaitingRanks(execution);
  return fault;
}

}  // namespace prism::slicer
