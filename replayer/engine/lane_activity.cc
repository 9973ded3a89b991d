#include "replayer/engine/lane_activity.h"

#include <algorithm>
#include <utility>

#include "replayer/engine/lane_rows.h"

namespace prism::replayer {
namespace {

// The sums of that many lanes fit into the L1 cache.
constexpr size_t kLanesAtATime = 512;

// Rows that wait to be counted should stay in a cache, but be many enough to be worth ordering.
size_t RowsKept(size_t lanes) {
  constexpr size_t kBytes = size_t{512} << 10U;
  return std::clamp<size_t>(kBytes / (sizeof(TimeRange) * lanes), 4, 64);
}

}  // namespace

LaneActivity::LaneActivity(uint32_t lanes)
    : lanes_(lanes), rows_kept_(RowsKept(lanes)), count_at_(rows_kept_) {
}

void LaneActivity::Reserve(size_t rows) {
  MakeTotals();
  spare_.resize(rows_kept_ + rows);
  for (LaneRanges& ranges : spare_) {
    ranges.Resize(lanes_);
  }
}

LaneRanges& LaneActivity::Add(ActivityKind kind) {
  Row& row = pending_.emplace_back();
  row.kind = kind;
  if (!spare_.empty()) {
    row.ranges = std::move(spare_.back());
    spare_.pop_back();
  }
  row.ranges.Resize(lanes_);
  return row.ranges;
}

void LaneActivity::Take(ActivityKind kind, LaneRanges* ranges) {
  std::swap(Add(kind), *ranges);
}

void LaneActivity::MakeTotals() {
  for (size_t kind = 0; kind < kActivityKinds && until_[kind].empty(); ++kind) {
    covered_[kind].assign(lanes_, 0);
    until_[kind].assign(lanes_, 0);
  }
}

// By begin in the first lane.
void LaneActivity::SortPending() {
  std::ranges::stable_sort(
      pending_, [](const Row& a, const Row& b) { return *a.ranges.begin() < *b.ranges.begin(); });
}

// How many of the pending rows, from the first on, begin at or before `until` in all lanes.
// `ordered` becomes false if in some lane they, or those after them, are not sorted by begin.
size_t LaneActivity::OrderedRows(const std::vector<TimeNs>& until, bool* ordered) const {
  *ordered = true;
  for (size_t i = 0; i < pending_.size(); ++i) {
    const TimeNs* const begin = pending_[i].ranges.begin();
    if (AnyBefore(until.data(), begin, 0, lanes_)) {
      // Later rows must not belong before this one.
      for (size_t j = i; j < pending_.size() && i > 0 && *ordered; ++j) {
        *ordered =
            !AnyBefore(pending_[j].ranges.begin(), pending_[i - 1].ranges.begin(), 0, lanes_);
      }
      return i;
    }
    if (i > 0 && AnyBefore(begin, pending_[i - 1].ranges.begin(), 0, lanes_)) {
      *ordered = false;
      return i;
    }
  }
  return pending_.size();
}

// Counts the first `rows` pending ones, in all lanes.
void LaneActivity::CountRows(size_t rows) {
  for (size_t first = 0; first < lanes_; first += kLanesAtATime) {
    const size_t lanes = std::min<size_t>(kLanesAtATime, lanes_ - first);
    for (size_t i = 0; i < rows; ++i) {
      const LaneRanges& ranges = pending_[i].ranges;
      for (auto kind = static_cast<size_t>(pending_[i].kind); kind < kActivityKinds; ++kind) {
        CoverRow(ranges.begin() + first, ranges.end() + first, until_[kind].data() + first,
                 covered_[kind].data() + first, lanes);
      }
    }
  }
}

// Ranges that are counted are left empty.
void LaneActivity::CountLane(uint32_t lane, TimeNs until) {
  of_lane_.clear();
  for (Row& row : pending_) {
    const TimeNs begin = row.ranges.begin()[lane];
    TimeNs& end = row.ranges.end()[lane];
    if (begin > until || end <= begin) {
      continue;
    }
    of_lane_.push_back({begin, end, static_cast<size_t>(row.kind)});
    end = begin;
    // Mostly in place already.
    for (size_t i = of_lane_.size() - 1; i > 0 && of_lane_[i].begin < of_lane_[i - 1].begin; --i) {
      std::swap(of_lane_[i], of_lane_[i - 1]);
    }
  }
  for (const LaneRange& range : of_lane_) {
    for (size_t kind = range.kind; kind < kActivityKinds; ++kind) {
      CoverRow(&range.begin, &range.end, &until_[kind][lane], &covered_[kind][lane], 1);
    }
  }
}

void LaneActivity::Forget(const std::vector<bool>& counted) {
  size_t kept = 0;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (counted[i]) {
      spare_.push_back(std::move(pending_[i].ranges));
    } else {
      if (kept != i) {
        pending_[kept] = std::move(pending_[i]);
      }
      ++kept;
    }
  }
  pending_.resize(kept);
  // Rows that remain are looked at again once as many new ones have arrived.
  count_at_ = std::max(rows_kept_, 2 * kept);
}

void LaneActivity::CountUntil(const std::vector<TimeNs>& until) {
  MakeTotals();
  SortPending();
  bool ordered = true;
  const size_t rows = OrderedRows(until, &ordered);
  std::vector<bool> counted(pending_.size());
  if (ordered && rows > 0) {
    CountRows(rows);
    std::fill_n(counted.begin(), rows, true);
  } else {
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      CountLane(lane, until[lane]);
    }
    for (size_t i = 0; i < pending_.size(); ++i) {
      counted[i] = !AnyBefore(pending_[i].ranges.begin(), pending_[i].ranges.end(), 0, lanes_);
    }
  }
  Forget(counted);
}

void LaneActivity::Open(const std::vector<TimeNs>& begin) {
  MakeTotals();
  open_ = true;
  for (size_t kind = 0; kind < kActivityKinds; ++kind) {
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      covered_[kind][lane] = std::max(DurationNs{0}, until_[kind][lane] - begin[lane]);
      until_[kind][lane] = std::max(until_[kind][lane], begin[lane]);
    }
  }
}

std::vector<RankTimes> LaneActivity::Finish(const std::vector<TimeNs>& begin,
                                            const std::vector<TimeNs>& end) {
  if (!open_) {
    Open(begin);
  }
  CountUntil(end);
  std::vector<RankTimes> times;
  times.reserve(lanes_);
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    CountLane(lane, end[lane]);  // rows that begin in time in this lane, but not in all
    Breakdown::Covered covered = {};
    for (size_t kind = 0; kind < kActivityKinds; ++kind) {
      covered[kind] =
          covered_[kind][lane] - std::max(DurationNs{0}, until_[kind][lane] - end[lane]);
    }
    times.push_back(TimesOf(covered, end[lane] - begin[lane]));
  }
  return times;
}

}  // namespace prism::replayer
