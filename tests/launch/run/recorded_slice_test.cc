#include "launch/run/recorded_slice.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

StoppedRank Stopped(uint32_t rank, uint32_t guessed_from, const std::string& values = "") {
  return {.rank = Rank(rank),
          .end = RunFailed("rank " + std::to_string(rank)),
          .guessed_from = {Rank(guessed_from)},
          .values = values};
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
// rehearsed, with whoever else lacks values of theirs, and then recorded again with all that.
TEST(RecordedSlice, rehearses_ranks_that_lack_each_others_values_again) {
  RecordedSlice slice(1);
  slice.Add(Stopped(0, 1, "a"));
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(1)));
  slice.Add(Stopped(1, 0, "b"));
  RecordedRank third = Recorded(2, "guess");
  third.guessed_from = {Rank(1)};
  slice.Add(third);
  RecordedRank elsewhere = Recorded(9);
  elsewhere.guessed_from = {Rank(8)};
  slice.Add(elsewhere);
  slice.EndRound();
  EXPECT_THAT(slice.Entangled(), IsEmpty());
  EXPECT_THAT(Lacking(&slice), ElementsAre(Rank(0), Rank(1)));
  slice.Add(Stopped(0, 1, "aa"));
  slice.Add(Stopped(1, 0, "bb"));
  slice.EndRound();
  EXPECT_THAT(slice.Entangled(), ElementsAre(Rank(0), Rank(1), Rank(2)));
  slice.AddRehearsed({Rank(0), Rank(1), Rank(2)}, "all");
  ASSERT_EQ(slice.fragments().size(), 1U);
  EXPECT_EQ(slice.fragments().front().rank, Rank(9));
  EXPECT_THAT(slice.Entangled(), IsEmpty());
  EXPECT_EQ(slice.book(), "abguessaabball");
  for (const uint32_t rank : {0U, 1U, 2U}) {
    slice.Add(Recorded(rank));
  }
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  EXPECT_EQ(slice.ValueBytes(Rank(2)), 14U);
}

TEST(RecordedSlice, gives_up_on_ranks_that_stop_after_their_rehearsal) {
  RecordedSlice slice(1);
  for (int round = 0; round < 2; ++round) {
    slice.Add(Stopped(0, 1));
    slice.Add(Stopped(1, 0));
    slice.EndRound();
  }
  EXPECT_THAT(slice.Entangled(), ElementsAre(Rank(0), Rank(1)));
  slice.AddRehearsed({Rank(0), Rank(1)}, "");
  slice.Add(Stopped(0, 1));
  slice.Add(Stopped(1, 0));
  slice.EndRound();
  EXPECT_THAT(slice.Entangled(), IsEmpty());
  EXPECT_FALSE(slice.TakeLacking().ok());
}

// A chain: the last one needs the one before, and so on; nobody needs the last one.
TEST(RecordedSlice, rehearses_no_ranks_that_can_be_recorded_in_order) {
  RecordedSlice slice(1);
  for (int round = 0; round < 2; ++round) {
    slice.Add(Stopped(2, 1));
    slice.Add(Stopped(1, 0));
    slice.Add(Recorded(0));
    slice.EndRound();
    EXPECT_THAT(slice.Entangled(), IsEmpty());
  }
}

// It did not fail, but was given what another rank would not have sent.
TEST(RecordedSlice, records_again_once_what_was_told_too_early) {
  RecordedSlice slice(1);
  RecordedRank first = Recorded(0, "question");
  first.guessed_from = {Rank(1)};
  slice.Add(first);
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  slice.Add(Recorded(1, "answer"));
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  EXPECT_THAT(slice.TakeToldTooEarly(), ElementsAre(Rank(0)));
  slice.Add(first);
  EXPECT_THAT(Lacking(&slice), IsEmpty());
  EXPECT_THAT(slice.TakeToldTooEarly(), IsEmpty());
}

}  // namespace
}  // namespace prism::launch
