#include "launch/emulate/run/recorded_slice.h"

#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shim/channel/value_book.h"

namespace prism::launch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

RecordedRank Recorded(uint32_t rank, const std::string& values = "") {
  RecordedRank recorded;
  recorded.fragment.rank = Rank(rank);
  recorded.values = values;
  return recorded;
}

RecordedRank Speculative(uint32_t rank, uint32_t producer, const std::string& values = "") {
  RecordedRank recorded = Recorded(rank, values);
  recorded.guessed = true;
  recorded.speculative_producers = {Rank(producer)};
  return recorded;
}

// Contributed that to the first call of a communicator of all ranks.
RecordedRank Contributing(uint32_t rank, const std::string& value) {
  channel::ValueHead head = {};
  head.communicator = 1;
  head.producer = head.source = static_cast<int32_t>(rank);
  head.target = -1;
  head.payload_bytes = static_cast<uint32_t>(value.size());
  head.steers = 1;
  std::string values;
  channel::AppendValue(head, std::as_bytes(std::span(value)), &values);
  return Recorded(rank, values);
}

StoppedRank Stopped(uint32_t rank, uint32_t producer, const std::string& values = "") {
  return {.rank = Rank(rank),
          .end = RunFailed("rank " + std::to_string(rank)),
          .speculative_producers = {Rank(producer)},
          .values = values};
}

// Ranks 0 and 1 have stopped twice, each for want of what the other one sends.
RecordedSlice AfterStopsInACircle() {
  RecordedSlice slice(1);
  for (int round = 0; round < 2; ++round) {
    slice.Add(Stopped(0, 1));
    slice.Add(Stopped(1, 0));
    slice.EndRound();
  }
  return slice;
}

std::vector<Rank> Lacking(RecordedSlice* slice) {
  slice->EndRound();
  const Result<std::vector<Rank>> lacking = slice->TakeLacking();
  EXPECT_TRUE(lacking.ok());
  return lacking.ok() ? *lacking : std::vector<Rank>();
}

// A rank may be recorded again after the graph has used its first recording. All are recorded for
// as long as rank 0, which was observed for longer than its memory was tracked.
TEST(RecordedSlice, keeps_how_long_rank_0_was_recorded) {
  RecordedSlice slice(3);
  EXPECT_EQ(slice.length().steps, 1);
  EXPECT_EQ(slice.length().iterations, 0);
  RecordedRank recorded = Recorded(0);
  recorded.fragment.steps_per_iteration = 4;
  recorded.fragment.warmup_iterations = 2;
  recorded.fragment.iterations = 33;
  slice.Add(recorded);
  slice.EndRound();
  EXPECT_EQ(slice.TakeFragments().size(), 1U);
  EXPECT_EQ(slice.length().steps, 4);
  EXPECT_EQ(slice.length().iterations, 5);
}

// Each stage needs what the one before sends: 3 needs 2, which needs 1.
TEST(RecordedSlice, records_what_a_stopped_rank_lacks_first) {
  RecordedSlice slice(1);
  slice.Add(Recorded(0, "zero"));
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  slice.Add(Stopped(3, 2));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(2)));
  slice.Add(Stopped(2, 1));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(1)));
  slice.Add(Recorded(1, "one"));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(2), Rank(3)));
  slice.Add(Recorded(2, "two"));
  slice.Add(Stopped(3, 2));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(3)));
  slice.Add(Recorded(3));
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  EXPECT_EQ(slice.fragments().size(), 4U);
  EXPECT_EQ(slice.book(), "zeroonetwo");
  EXPECT_EQ(slice.ValueBytes(Rank(2)), 7U);
}

// What a rank sent before it was given anything else is known to those that it asked.
TEST(RecordedSlice, gives_what_stopped_ranks_sent_and_gives_up_where_nothing_is_new) {
  RecordedSlice slice(1);
  slice.Add(Stopped(0, 1, "question"));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(1)));
  slice.Add(Stopped(1, 0, "answer"));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(0)));
  slice.Add(Stopped(0, 1, "question"));
  slice.EndRound();
  const Result<std::vector<Rank>> lacking = slice.TakeLacking();
  ASSERT_FALSE(lacking.ok());
  EXPECT_EQ(lacking.status().message(), "rank 0");
  EXPECT_EQ(slice.book(), "questionanswer");
}

// Each time both are recorded again they get one message further: the second time they are
// recorded together with their speculative producers, and then each again with all that.
TEST(RecordedSlice, records_ranks_of_a_dependency_cycle_together) {
  RecordedSlice slice(1);
  slice.Add(Stopped(0, 1, "a"));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(1)));
  slice.Add(Stopped(1, 2, "b"));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(2)));
  slice.Add(Speculative(2, 0, "guess"));
  slice.Add(Speculative(9, 8));
  slice.Add(Speculative(7, 0));
  slice.EndRound();
  EXPECT_THAT(slice.DependencyCycle(), IsEmpty());
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(0), Rank(1)));
  slice.Add(Stopped(0, 1, "aa"));
  slice.Add(Stopped(1, 2, "bb"));
  slice.EndRound();
  EXPECT_THAT(slice.DependencyCycle(), ElementsAre(Rank(0), Rank(1), Rank(2)));
  slice.AddCoRecorded({Rank(0), Rank(1), Rank(2)}, "all");
  ASSERT_EQ(slice.fragments().size(), 2U);
  EXPECT_EQ(slice.fragments().front().rank, Rank(7));
  EXPECT_THAT(slice.DependencyCycle(), IsEmpty());
  EXPECT_EQ(slice.book(), "abguessaabball");
  for (const uint32_t rank : {0U, 1U, 2U}) {
    slice.Add(Recorded(rank));
  }
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  EXPECT_EQ(slice.ValueBytes(Rank(2)), 14U);
}

// Two pipelines: one after the other.
TEST(RecordedSlice, records_only_ranks_of_one_cycle_together) {
  RecordedSlice slice(1);
  for (int round = 0; round < 2; ++round) {
    for (const uint32_t first : {0U, 10U}) {
      slice.Add(Stopped(first, first + 1));
      slice.Add(Stopped(first + 1, first));
    }
    slice.EndRound();
  }
  EXPECT_THAT(slice.DependencyCycle(), ElementsAre(Rank(0), Rank(1)));
  slice.AddCoRecorded({Rank(0), Rank(1)}, "values");
  slice.Add(Recorded(0));
  slice.Add(Recorded(1));
  slice.EndRound();
  EXPECT_THAT(slice.DependencyCycle(), ElementsAre(Rank(10), Rank(11)));
}

// What rank 3 was given is rank 2's own, but that one lacked rank 1's at that time.
TEST(RecordedSlice, records_a_rank_that_stops_on_speculative_values_together_with_their_producers) {
  RecordedSlice slice(1);
  slice.Add(Recorded(1, "one"));
  slice.Add(Speculative(2, 1, "two"));
  slice.EndRound();
  slice.Add(Stopped(3, 2));
  slice.EndRound();
  EXPECT_THAT(slice.DependencyCycle(), ElementsAre(Rank(2), Rank(3)));
}

TEST(RecordedSlice, gives_up_on_ranks_that_stop_after_they_were_recorded_together) {
  RecordedSlice slice = AfterStopsInACircle();
  EXPECT_THAT(slice.DependencyCycle(), ElementsAre(Rank(0), Rank(1)));
  slice.AddCoRecorded({Rank(0), Rank(1)}, "");
  slice.Add(Stopped(0, 1));
  slice.Add(Stopped(1, 0));
  slice.EndRound();
  EXPECT_THAT(slice.DependencyCycle(), IsEmpty());
  EXPECT_FALSE(slice.TakeLacking().ok());
}

// A chain: the last one needs the one before, and so on; nobody needs the last one.
TEST(RecordedSlice, records_no_ranks_together_that_can_be_recorded_in_order) {
  RecordedSlice slice(1);
  for (int round = 0; round < 2; ++round) {
    slice.Add(Stopped(2, 1));
    slice.Add(Stopped(1, 0));
    slice.Add(Recorded(0, "zero"));
    slice.EndRound();
    EXPECT_THAT(slice.DependencyCycle(), IsEmpty());
  }
}

// It did not fail, but was given what another rank would not have sent.
TEST(RecordedSlice, records_a_stale_rank_again_once) {
  RecordedSlice slice(1);
  const RecordedRank first = Speculative(0, 1, "question");
  slice.Add(first);
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  slice.Add(Recorded(1, "answer"));
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  EXPECT_THAT(slice.TakeStale(), ElementsAre(Rank(0)));
  slice.Add(first);
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  EXPECT_THAT(slice.TakeStale(), IsEmpty());
}

// 3 guessed what 2 sends, 4 was given what 3 then sent, and 5 what 4 did: as soon as a producer has
// settled, the next one is recorded again, but 9, whose producer never does, not.
TEST(RecordedSlice, records_a_rank_again_when_its_producers_have_settled) {
  RecordedSlice slice(1);
  slice.Add(Recorded(2));
  slice.Add(Speculative(3, 2, "x"));
  for (const uint32_t rank : {4U, 5U, 9U}) {
    RecordedRank misled = Recorded(rank, "y");
    misled.speculative_producers = {Rank(rank - 1)};
    slice.Add(misled);
  }
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  for (const uint32_t rank : {3U, 4U, 5U}) {
    EXPECT_THAT(slice.TakeStale(), ElementsAre(Rank(rank)));
    slice.Add(Recorded(rank, "z"));
    EXPECT_THAT(Lacking(&slice), IsEmpty());
  }
  EXPECT_THAT(slice.TakeStale(), IsEmpty());
}

// What it sent while it was co-recorded goes further.
TEST(RecordedSlice, keeps_what_a_co_recorded_rank_sent_if_it_stops) {
  RecordedSlice slice = AfterStopsInACircle();
  slice.AddCoRecorded({Rank(0), Rank(1)}, "all");
  slice.Add(Stopped(0, 1, "less"));
  slice.EndRound();
  EXPECT_EQ(slice.book(), "all");
}

TEST(RecordedSlice, records_again_who_was_recorded_for_fewer_iterations_or_another_one) {
  for (const bool varies : {false, true}) {
    RecordedSlice slice(3);
    slice.Add(Stopped(0, 1));
    EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(1)));
    RecordedRank rank_1 = Recorded(1, "one");
    rank_1.fragment.iterations = varies ? 20 : 2;
    slice.Add(rank_1);
    EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(0)));
    RecordedRank rank_0 = Recorded(0);
    rank_0.fragment.iterations = 8;
    rank_0.fragment.varies = varies;
    slice.Add(rank_0);
    EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(1))) << varies;
  }
}

// Rank 1 was recorded while rank 0 had only stopped, and took each step for an iteration.
TEST(RecordedSlice, records_again_who_was_recorded_for_another_length_than_rank_0) {
  RecordedSlice slice(3);
  slice.Add(Stopped(0, 1));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(1)));
  slice.Add(Recorded(1, "one"));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(0)));
  RecordedRank rank_0 = Recorded(0);
  rank_0.fragment.steps_per_iteration = 4;
  slice.Add(rank_0);
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(1)));
  slice.Add(Recorded(1, "one"));
  EXPECT_THAT(Lacking(&slice), IsEmpty()) << "whatever it was recorded for this time";
  EXPECT_EQ(slice.fragments().size(), 2U);
}

// Rank 2 came last and knew what all contributed; rank 1 contributed what rank 0 did.
TEST(RecordedSlice, records_misled_ranks_again_as_often_as_asked) {
  RecordedSlice slice(1);
  slice.Add(Contributing(0, "a"));
  slice.EndRound();
  slice.Add(Contributing(1, "a"));
  slice.EndRound();
  EXPECT_THAT(slice.TakeMisled(1), IsEmpty());
  slice.Add(Contributing(2, "b"));
  slice.EndRound();
  EXPECT_THAT(slice.TakeMisled(1), ElementsAre(Rank(0), Rank(1)));
  slice.Add(Contributing(0, "a"));
  slice.Add(Contributing(1, "c"));
  slice.EndRound();
  EXPECT_THAT(slice.TakeMisled(1), ElementsAre(Rank(2)));
  EXPECT_THAT(slice.TakeMisled(2), ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(slice.TakeMisled(2), IsEmpty());
}

// Rank 0 runs again for as long as is known, without looking for odd iterations.
TEST(RecordedSlice, keeps_what_rank_0_found_of_odd_iterations) {
  RecordedSlice slice(1);
  RecordedRank first = Recorded(0);
  first.fragment.iterations = 6;
  first.fragment.odd_iterations = {4};
  first.fragment.warnings = {{.code = "odd_iteration", .count = 1, .example = "iteration 4"}};
  first.odd_kinds = {{.sort = slicer::OddSort::kCheckpoint, .numbers = {4}}};
  first.seen = 5;
  slice.Add(first);
  slice.EndRound();
  RecordedRank again = Recorded(0);
  again.fragment.iterations = 5;
  slice.Add(again);
  slice.EndRound();
  ASSERT_EQ(slice.odd_kinds().size(), 1U);
  EXPECT_EQ(slice.seen(), 5);
  const graph::Fragment& last = slice.fragments().back();
  EXPECT_THAT(last.odd_iterations, ElementsAre(4));
  ASSERT_EQ(last.warnings.size(), 1U);
  EXPECT_EQ(last.warnings.front().code, "odd_iteration");
}

}  // namespace
}  // namespace prism::launch
