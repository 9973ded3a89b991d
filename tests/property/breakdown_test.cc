// The breakdown, counted piece by piece, against a count of every nanosecond.
#include "replayer/engine/breakdown.h"

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/rng.h"

namespace prism::replayer {
namespace {

struct Drawn {
  ActivityKind kind;
  TimeRange range;
};

// By begin, so that a piece can be counted between any two.
std::vector<Drawn> DrawRanges(Rng* rng) {
  std::vector<Drawn> drawn;
  for (int64_t i = rng->UniformInt(0, 40); i > 0; --i) {
    const int64_t begin = rng->UniformInt(0, 300);
    drawn.push_back({static_cast<ActivityKind>(rng->UniformInt(0, kActivityKinds - 1)),
                     {begin, begin + rng->UniformInt(0, 40)}});
  }
  std::sort(drawn.begin(), drawn.end(),
            [](const Drawn& a, const Drawn& b) { return a.range.begin < b.range.begin; });
  return drawn;
}

// Nanoseconds of the window by the first kind that is active; last: none.
std::array<DurationNs, kActivityKinds + 1> CountEach(const std::vector<Drawn>& drawn,
                                                     TimeRange window) {
  std::array<DurationNs, kActivityKinds + 1> spent = {};
  for (TimeNs now = window.begin; now < window.end; ++now) {
    size_t kind = kActivityKinds;
    for (const Drawn& one : drawn) {
      if (one.range.begin <= now && now < one.range.end) {
        kind = std::min(kind, static_cast<size_t>(one.kind));
      }
    }
    ++spent[kind];
  }
  return spent;
}

TEST(BreakdownProperty, pieces_add_up_to_a_count_of_every_nanosecond) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed, "breakdown");
    const std::vector<Drawn> drawn = DrawRanges(&rng);
    const TimeNs begin = rng.UniformInt(0, 150);
    const TimeRange window = {begin, begin + rng.UniformInt(0, 150)};
    Breakdown breakdown;
    TimeNs counted = window.begin;
    for (const Drawn& one : drawn) {
      if (rng.UniformInt(0, 3) == 0) {
        const TimeNs until = std::min(one.range.begin, window.end);
        breakdown.Count({std::min(counted, until), until});
        counted = std::max(counted, until);
      }
      breakdown.Add(one.kind, one.range);
    }
    const RankTimes times = breakdown.Finish(window);
    const auto expected = CountEach(drawn, window);
    EXPECT_EQ(times.compute_ns, expected[0]) << "seed " << seed;
    EXPECT_EQ(times.exposed_comm_ns, expected[1]) << "seed " << seed;
    EXPECT_EQ(times.bubble_ns, expected[2]) << "seed " << seed;
    EXPECT_EQ(times.idle_ns, expected[3]) << "seed " << seed;
  }
}

// Too many moves for an insertion sort.
TEST(BreakdownProperty, ranges_may_come_in_the_opposite_order) {
  Breakdown breakdown;
  for (TimeNs begin = 1000; begin > 0; begin -= 2) {
    breakdown.Add(ActivityKind::kCompute, {begin, begin + 1});
    breakdown.Add(ActivityKind::kTransfer, {begin, begin + 2});
  }
  const RankTimes times = breakdown.Finish({0, 1002});
  EXPECT_EQ(times.compute_ns, 500);
  EXPECT_EQ(times.exposed_comm_ns, 500);
  EXPECT_EQ(times.idle_ns, 2);
}

}  // namespace
}  // namespace prism::replayer
