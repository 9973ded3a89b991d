#include "slicer/stitch/early_mismatch.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/slicer/script_recording.h"

namespace prism::slicer {
namespace {

using ::testing::HasSubstr;

// Ranks 0 to 3 sum in every iteration; `early` comes before the first of them, `odd` into the
// third.
graph::Fragment Record(uint32_t rank,
                       const std::function<void(RecordScript*)>& early,
                       const std::function<void(RecordScript*)>& odd) {
  RecordScript script;
  script.AsRank(static_cast<int32_t>(rank));
  script.CommInit(3, "dp", 4, 0, 1);
  early(&script);
  for (int i = 0; i < 6; ++i) {
    script.Marker("iteration", true);
    script.AllReduce(3, 64, 5);
    if (i == 2) {
      odd(&script);
    }
    script.Marker("iteration", false);
  }
  Result<graph::Fragment> fragment = RecordAll(script, rank);
  PRISM_CHECK(fragment.ok());
  return std::move(*fragment);
}

std::optional<graph::Warning> Compare(const graph::Fragment& a, const graph::Fragment& b) {
  return FindEarlyMismatch({{a.rank, &a}, {b.rank, &b}});
}

const auto kNothing = [](RecordScript* /*script*/) {};
const auto kSum = [](RecordScript* script) { script->AllReduce(3, 12, 5); };

std::function<void(RecordScript*)> Messages(const std::vector<int32_t>& peers, bool is_send) {
  return [=](RecordScript* script) {
    for (const int32_t peer : peers) {
      script->Transfer(3, peer, is_send, 16, 5);
    }
    script->GroupEnd();
  };
}

TEST(EarlyMismatch, a_collective_of_one_rank_alone_is_told) {
  const auto warning = Compare(Record(0, kSum, kNothing), Record(1, kNothing, kNothing));
  ASSERT_TRUE(warning.has_value());
  EXPECT_EQ(warning->code, "early_mismatch");
  EXPECT_EQ(warning->count, 1);
  EXPECT_THAT(warning->example,
              HasSubstr("before its first iteration rank 0 makes 1 call of all_reduce on a group "
                        "of 4 ranks, rank 1 0; the program hangs, unless iterations begin before "
                        "this call on one rank and after it on the other; --sandbox-ranks 0,1"));
  const auto sum_twice = [](RecordScript* script) {
    kSum(script);
    kSum(script);
  };
  const auto more = Compare(Record(0, sum_twice, kNothing), Record(1, kNothing, kNothing));
  ASSERT_TRUE(more.has_value());
  EXPECT_THAT(more->example, HasSubstr("2 calls of all_reduce on a group of 4 ranks, rank 1 0; the "
                                       "program would hang; "))
      << "more than in an iteration: no cut between the two sides of a call explains it";
}

TEST(EarlyMismatch, what_all_do_or_do_in_turn_is_not) {
  EXPECT_FALSE(Compare(Record(0, kSum, kNothing), Record(1, kSum, kNothing)).has_value());
  EXPECT_FALSE(Compare(Record(0, kSum, kNothing), Record(1, kNothing, kSum)).has_value())
      << "a step later";
}

// A call that is made up for later is not at fault.
TEST(EarlyMismatch, the_iteration_that_is_never_made_good_is_named) {
  const auto warning = Compare(Record(0, kSum, kSum), Record(1, kSum, kNothing));
  ASSERT_TRUE(warning.has_value());
  EXPECT_THAT(warning->example, HasSubstr("in iteration 2 rank 0 makes 2 calls"));
}

TEST(EarlyMismatch, of_several_the_first_is_named) {
  const auto broadcast = [](RecordScript* script) { script->Broadcast(3, 0, 12, 5); };
  for (const bool sum_first : {false, true}) {
    const auto warning =
        Compare(sum_first ? Record(0, kSum, broadcast) : Record(0, broadcast, kSum),
                Record(1, kNothing, kNothing));
    ASSERT_TRUE(warning.has_value());
    EXPECT_EQ(warning->count, 2);
    EXPECT_THAT(warning->example, HasSubstr("before its first iteration"));
  }
}

TEST(EarlyMismatch, two_groups_of_the_same_members_are_two) {
  const auto sum_on = [](uint32_t group) {
    return [group](RecordScript* script) {
      script->OfGroup(group);
      script->CommInit(4, "", 4, 0, 1);
      script->AllReduce(4, 12, 5);
    };
  };
  const graph::Fragment first = Record(0, sum_on(1), kNothing);
  EXPECT_FALSE(Compare(first, Record(1, sum_on(1), kNothing)).has_value());
  const auto warning = Compare(first, Record(1, sum_on(2), kNothing));
  ASSERT_TRUE(warning.has_value());
  EXPECT_EQ(warning->count, 2) << "each rank waits for the other";
}

TEST(EarlyMismatch, a_message_that_nobody_sends_is_told) {
  const graph::Fragment waits = Record(0, kNothing, Messages({1}, false));
  const auto warning = Compare(waits, Record(1, kNothing, kNothing));
  ASSERT_TRUE(warning.has_value());
  EXPECT_THAT(warning->example,
              HasSubstr("in iteration 2 rank 1 sends 0 messages to rank 0, which receives 1"));
  EXPECT_FALSE(Compare(waits, Record(1, kNothing, Messages({0}, true))).has_value());
}

TEST(EarlyMismatch, messages_to_both_neighbours_are_no_exchange) {
  const auto warning =
      Compare(Record(0, kNothing, kNothing), Record(1, kNothing, Messages({0, 2}, true)));
  ASSERT_TRUE(warning.has_value());
  EXPECT_THAT(warning->example, HasSubstr("rank 1 sends 1 messages to rank 0, which receives 0"));
}

// NCCL leaves out the empty parts of an all_to_all.
TEST(EarlyMismatch, parts_of_an_exchange_are_no_messages) {
  const graph::Fragment root = Record(0, Messages({1, 2, 3}, false), kNothing);
  EXPECT_FALSE(Compare(root, Record(1, kNothing, kNothing)).has_value());
  EXPECT_FALSE(Compare(root, Record(2, Messages({0}, true), kNothing)).has_value());
  const graph::Fragment of_two = Record(0, Messages({0, 1}, true), kNothing);
  EXPECT_FALSE(Compare(of_two, Record(1, kNothing, kNothing)).has_value()) << "with itself";
}

}  // namespace
}  // namespace prism::slicer
