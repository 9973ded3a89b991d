#include "replayer/engine/breakdown.h"

#include <algorithm>

namespace prism::replayer {
namespace {

// Ranges arrive nearly in order: each moves back past a few others; if that takes too long all are
// sorted.
void SortByBegin(std::vector<TimeRange>* ranges) {
  const auto earlier = [](const TimeRange& a, const TimeRange& b) { return a.begin < b.begin; };
  size_t moves = 8 * ranges->size();
  for (size_t i = 1; i < ranges->size(); ++i) {
    const TimeRange range = (*ranges)[i];
    size_t at = i;
    for (; at > 0 && range.begin < (*ranges)[at - 1].begin && moves > 0; --moves) {
      (*ranges)[at] = (*ranges)[at - 1];
      --at;
    }
    (*ranges)[at] = range;
    if (moves == 0) {
      std::ranges::sort(*ranges, earlier);
      return;
    }
  }
}

// Keeps what extends beyond `until`, still by begin; `first` ranges begin before it.
void KeepBeyond(TimeNs until, size_t first, std::vector<TimeRange>* ranges) {
  size_t kept = 0;
  for (size_t i = 0; i < ranges->size(); ++i) {
    const TimeRange range = (*ranges)[i];
    if (i >= first) {
      (*ranges)[kept++] = range;
    } else if (range.end > until) {
      (*ranges)[kept++] = {until, range.end};
    }
  }
  ranges->resize(kept);
}

}  // namespace

// Ranges of all kinds by begin: each adds to a union the part that is after the union's end.
void Breakdown::Count(TimeRange window) {
  std::array<size_t, kActivityKinds> next = {};
  std::array<TimeNs, kActivityKinds> end = {};
  end.fill(window.begin);
  for (std::vector<TimeRange>& ranges : ranges_) {
    SortByBegin(&ranges);
  }
  while (true) {
    size_t kind = kActivityKinds;
    TimeNs begin = window.end;
    for (size_t k = 0; k < kActivityKinds; ++k) {
      if (next[k] < ranges_[k].size() && ranges_[k][next[k]].begin < begin) {
        kind = k;
        begin = ranges_[k][next[k]].begin;
      }
    }
    if (kind == kActivityKinds) {
      break;
    }
    const TimeNs until = std::min(ranges_[kind][next[kind]++].end, window.end);
    for (size_t k = kind; k < kActivityKinds; ++k) {
      covered_[k] += std::max(DurationNs{0}, until - std::max(begin, end[k]));
      end[k] = std::max(end[k], until);
    }
  }
  for (size_t k = 0; k < kActivityKinds; ++k) {
    KeepBeyond(window.end, next[k], &ranges_[k]);
  }
}

RankTimes Breakdown::Finish(TimeRange window) {
  Count(window);
  return TimesOf(covered_, window.end - window.begin);
}

RankTimes TimesOf(const Breakdown::Covered& covered, DurationNs iteration_ns) {
  RankTimes times;
  times.iteration_ns = iteration_ns;
  times.compute_ns = covered[0];
  times.exposed_comm_ns = covered[1] - covered[0];
  times.bubble_ns = covered[2] - covered[1];
  times.idle_ns = iteration_ns - covered[2];
  return times;
}

RankTimes BreakDown(Activity activity, TimeRange window) {
  Breakdown breakdown;
  const std::array<std::vector<TimeRange>*, kActivityKinds> ranges = {
      &activity.compute, &activity.transfer, &activity.peer_wait};
  for (size_t k = 0; k < kActivityKinds; ++k) {
    for (const TimeRange& range : *ranges[k]) {
      breakdown.Add(static_cast<ActivityKind>(k), range);
    }
  }
  return breakdown.Finish(window);
}

}  // namespace prism::replayer
