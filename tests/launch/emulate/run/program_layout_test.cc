#include "launch/emulate/run/program_layout.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace prism::launch {
namespace {

TEST(AlikeFrom, odd_iterations_end_what_is_alike_and_are_not_the_first) {
  std::vector<graph::Fragment> fragments(2);
  fragments.front().iterations = 10;
  fragments.front().odd_iterations = {4, 9};
  fragments.back().odd_iterations = {5};
  const auto expect = [&](int32_t from, int32_t begin, int32_t count) {
    const IterationRange range = AlikeFrom(fragments, from);
    EXPECT_EQ(range.count, count) << from;
    if (count > 0) {
      EXPECT_EQ(range.begin, begin) << from;
    }
  };
  expect(1, 1, 3);
  expect(4, 6, 3);  // another rank becomes steady while rank 0 evaluates
  expect(7, 7, 2);
  expect(9, 0, 0);
  expect(12, 0, 0);
}

// Local SGD: only every fourth iteration communicates.
TEST(SettleProgram, ranks_whose_odd_iterations_communicate_are_no_independent_jobs) {
  slicer::ProbeStep found;
  found.axes = {{.name = "dp", .size = 4}};
  const std::vector<graph::Fragment> fragments(1);
  OddFragments odd = {{Rank(0), std::vector<graph::Fragment>(2)}};
  const auto warns = [&] {
    RunContext context;
    (void)SettleProgram(found, fragments, odd, &context);
    return std::ranges::count(context.warnings, "no_communication", &graph::Warning::code) > 0;
  };
  EXPECT_TRUE(warns());
  odd[Rank(0)].back().comm_slots.emplace_back();
  EXPECT_FALSE(warns());
}

}  // namespace
}  // namespace prism::launch
