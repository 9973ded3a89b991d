#include "launch/run/program_layout.h"

#include <gtest/gtest.h>

#include "launch/run/recorded_slice.h"

namespace prism::launch {
namespace {

TEST(AlikeFrom, odd_iterations_end_what_is_alike_and_are_not_the_first) {
  graph::Fragment fragment;
  fragment.iterations = 10;
  fragment.odd_iterations = {4, 5, 9};
  const auto expect = [&](int32_t from, int32_t begin, int32_t count) {
    const IterationRange range = AlikeFrom(fragment, from);
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

// A rank may be recorded again after the graph has used its first recording. All are recorded for
// as long as rank 0, which was observed for longer than its memory was tracked.
TEST(RecordedSlice, keeps_how_long_rank_0_was_recorded) {
  RecordedSlice slice(3);
  EXPECT_EQ(slice.length().steps, 1);
  EXPECT_EQ(slice.length().iterations, 0);
  graph::Fragment fragment;
  fragment.rank = Rank(0);
  fragment.steps_per_iteration = 4;
  fragment.warmup_iterations = 2;
  fragment.iterations = 33;
  slice.Add(fragment, "");
  slice.EndRound();
  EXPECT_EQ(slice.TakeFragments().size(), 1U);
  EXPECT_EQ(slice.length().steps, 4);
  EXPECT_EQ(slice.length().iterations, 5);
}

}  // namespace
}  // namespace prism::launch
