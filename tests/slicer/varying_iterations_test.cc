// Programs whose batches differ in length: no two iterations in a row are the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slicer/script_recording.h"

namespace prism::slicer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Iterations with products of these sizes, and a reduction of as much.
RecordScript TrainingOn(const std::vector<int32_t>& lengths, int32_t rank = 0) {
  RecordScript script;
  script.AsRank(rank);
  script.CommInit(1, "dp", 4, 0, 1);
  for (const int32_t length : lengths) {
    script.Matmul(length);
    script.AllReduce(1, 4 * length, 1);
    script.Marker("Optimizer.step#Adam.step", true);
    script.Matmul(8);
    script.Marker("Optimizer.step#Adam.step", false);
  }
  return script;
}

std::vector<int32_t> Growing(int32_t count) {
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < count; ++i) {
    lengths.push_back(16 + 8 * i);
  }
  return lengths;
}

Result<graph::Fragment> Record(const std::vector<int32_t>& lengths, const ChosenIteration& chosen) {
  Recorder recorder(
      {.rank = Rank(1), .warmup_iterations = 0, .least_iterations = 14, .chosen = chosen});
  PRISM_RETURN_IF_ERROR(Feed(TrainingOn(lengths, 1), &recorder));
  return recorder.Finish();
}

// An iteration begins with an optimizer step and holds the batch after it.
int32_t LengthIn(const graph::Fragment& fragment) {
  return static_cast<int32_t>(fragment.program.collectives.at(0).bytes / 4);
}

TEST(VaryingIterations, the_last_stands_for_all_and_that_is_told) {
  const Result<graph::Fragment> fragment = RecordAll(TrainingOn(Growing(15)), 0, 0);
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_TRUE(fragment->varies);
  EXPECT_EQ(fragment->warmup_iterations, 13);
  EXPECT_THAT(fragment->odd_iterations, ElementsAre());
  EXPECT_EQ(LengthIn(*fragment), Growing(15).back());
  ASSERT_EQ(fragment->warnings.size(), 1U);
  EXPECT_EQ(fragment->warnings.front().code, "iterations_vary");
  EXPECT_THAT(fragment->warnings.front().example,
              HasSubstr("rank 0: iteration 13 stands for all; iterations 12 and 13 differ at op"));
}

TEST(VaryingIterations, a_rank_takes_the_one_that_rank_0_took) {
  const Result<graph::Fragment> fragment = Record(Growing(15), {.number = 5});
  ASSERT_TRUE(fragment.ok()) << fragment.status().message();
  EXPECT_TRUE(fragment->varies);
  EXPECT_EQ(fragment->warmup_iterations, 5);
  EXPECT_EQ(LengthIn(*fragment), Growing(7).back());
  EXPECT_THAT(fragment->odd_iterations, ElementsAre(6, 7, 8, 9, 10, 11, 12, 13));
}

TEST(VaryingIterations, two_equal_ones_by_chance_count_only_if_rank_0_had_some) {
  std::vector<int32_t> lengths = Growing(15);
  lengths[4] = lengths[3];
  const Result<graph::Fragment> steady = Record(lengths, {.number = 5});
  ASSERT_TRUE(steady.ok()) << steady.status().message();
  EXPECT_FALSE(steady->varies);
  EXPECT_EQ(steady->warmup_iterations, 2);
  const Result<graph::Fragment> varying = Record(lengths, {.number = 13, .always = true});
  ASSERT_TRUE(varying.ok()) << varying.status().message();
  EXPECT_TRUE(varying->varies);
  EXPECT_EQ(varying->warmup_iterations, 13);
}

TEST(VaryingIterations, too_few_are_refused_with_what_to_do) {
  const Result<graph::Fragment> fragment = RecordAll(TrainingOn(Growing(6)), 0, 0);
  ASSERT_FALSE(fragment.ok());
  EXPECT_THAT(fragment.status().message(), HasSubstr("let it run more steps, up to 14"));
}

}  // namespace
}  // namespace prism::slicer
