// Activity of many lanes, counted in pieces, against a count of every nanosecond.
#include "replayer/engine/lane_activity.h"

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/rng.h"

namespace prism::replayer {
namespace {

constexpr uint32_t kLanes = 3;

struct DrawnRow {
  ActivityKind kind;
  std::array<TimeRange, kLanes> ranges;
};

// Rows that begin at about the same time in all lanes. Without `spread` their order is the same.
std::vector<DrawnRow> DrawRows(Rng* rng, int64_t spread) {
  std::vector<DrawnRow> rows;
  for (int64_t i = rng->UniformInt(0, 60); i > 0; --i) {
    DrawnRow row = {static_cast<ActivityKind>(rng->UniformInt(0, kActivityKinds - 1)), {}};
    const int64_t about = rng->UniformInt(0, 300);
    for (TimeRange& range : row.ranges) {
      range.begin = about + rng->UniformInt(0, spread);
      range.end = range.begin + rng->UniformInt(0, 40);
    }
    rows.push_back(row);
  }
  return rows;
}

// Nanoseconds of the window by the first kind that is active; last: none.
std::array<DurationNs, kActivityKinds + 1> CountEach(const std::vector<DrawnRow>& rows,
                                                     uint32_t lane,
                                                     TimeRange window) {
  std::array<DurationNs, kActivityKinds + 1> spent = {};
  for (TimeNs now = window.begin; now < window.end; ++now) {
    size_t kind = kActivityKinds;
    for (const DrawnRow& row : rows) {
      if (row.ranges[lane].begin <= now && now < row.ranges[lane].end) {
        kind = std::min(kind, static_cast<size_t>(row.kind));
      }
    }
    ++spent[kind];
  }
  return spent;
}

// The earliest begin of the rows from `first` on, by lane, and no later than `latest`.
std::vector<TimeNs> EarliestFrom(const std::vector<DrawnRow>& rows,
                                 size_t first,
                                 const std::vector<TimeNs>& latest) {
  std::vector<TimeNs> until = latest;
  for (size_t i = first; i < rows.size(); ++i) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      until[lane] = std::min(until[lane], rows[i].ranges[lane].begin);
    }
  }
  return until;
}

void CheckSeed(uint64_t seed) {
  Rng rng(seed, "lane activity");
  std::vector<DrawnRow> rows = DrawRows(&rng, seed % 3 == 0 ? 0 : rng.UniformInt(1, 20));
  // Not quite in order, as streams run ahead of each other.
  std::stable_sort(rows.begin(), rows.end(), [&](const DrawnRow& a, const DrawnRow& b) {
    return a.ranges[0].begin / 25 < b.ranges[0].begin / 25;
  });
  std::vector<TimeNs> begin;
  std::vector<TimeNs> end;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    begin.push_back(rng.UniformInt(0, 150));
    end.push_back(begin.back() + rng.UniformInt(0, 150));
  }
  LaneActivity activity(kLanes);
  bool open = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rng.UniformInt(0, 3) == 0) {
      const std::vector<TimeNs> until = EarliestFrom(rows, i, open ? end : begin);
      activity.CountUntil(until);
      if (!open && until == begin) {
        activity.Open(begin);
        open = true;
      }
    }
    LaneRanges ranges;
    ranges.Resize(kLanes);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      ranges.begin()[lane] = rows[i].ranges[lane].begin;
      ranges.end()[lane] = rows[i].ranges[lane].end;
    }
    activity.Take(rows[i].kind, &ranges);
  }
  const std::vector<RankTimes> times = activity.Finish(begin, end);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const auto expected = CountEach(rows, lane, {begin[lane], end[lane]});
    EXPECT_EQ(times[lane].compute_ns, expected[0]) << "seed " << seed << " lane " << lane;
    EXPECT_EQ(times[lane].exposed_comm_ns, expected[1]) << "seed " << seed << " lane " << lane;
    EXPECT_EQ(times[lane].bubble_ns, expected[2]) << "seed " << seed << " lane " << lane;
    EXPECT_EQ(times[lane].idle_ns, expected[3]) << "seed " << seed << " lane " << lane;
  }
}

TEST(LaneActivityProperty, pieces_add_up_to_a_count_of_every_nanosecond) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    CheckSeed(seed);
  }
}

}  // namespace
}  // namespace prism::replayer
