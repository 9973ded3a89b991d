// What a rank is given in place of an absent one's data.
#include "shim/channel/value_book.h"

#include <string>

#include <gtest/gtest.h>

namespace prism::channel {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The call number `sequence` of root 0 in a communicator of the shape 7.
ValueHead Call(uint64_t communicator, int32_t producer, uint32_t sequence, uint32_t bytes) {
  ValueHead head = {};
  head.communicator = communicator;
  head.shape = 7;
  head.sequence = sequence;
  head.producer = producer;
  head.target = -1;
  head.payload_bytes = bytes;
  return head;
}

void Give(const ValueHead& call, int32_t iteration, const std::string& value, std::string* book) {
  ValueHead head = call;
  head.iteration = iteration;
  head.payload_bytes = static_cast<uint32_t>(value.size());
  AppendValue(head, BytesOf(value), book);
}

std::string TextOf(const FoundValue& found) {
  return {reinterpret_cast<const char*>(found.value.data()), found.value.size()};
}

std::string Numbered(char letter, int32_t number) {
  std::string text(1, letter);
  text += std::to_string(number);
  return text;
}

TEST(ValueBook, the_root_itself_comes_before_a_nearer_peer) {
  std::string bytes;
  Give(Call(1, 0, 4, 0), 0, "root0", &bytes);
  Give(Call(2, 8, 4, 0), 0, "root8", &bytes);
  const ValueBook book(BytesOf(bytes));
  const FoundValue exact = book.Find(Call(1, 0, 4, 5));
  EXPECT_EQ(exact.origin, ValueOrigin::kRecorded);
  EXPECT_EQ(TextOf(exact), "root0");
  const FoundValue peer = book.Find(Call(3, 6, 4, 5));
  EXPECT_EQ(peer.origin, ValueOrigin::kPeer);
  EXPECT_EQ(TextOf(peer), "root8");
  // 4 is as far from 0 as from 8.
  EXPECT_EQ(TextOf(book.Find(Call(3, 4, 4, 5))), "root0");
}

// The same two stages of another pipeline come before other stages, whose ranks may be nearer.
TEST(ValueBook, the_same_place_comes_before_the_same_shape) {
  std::string bytes;
  const auto of_place = [](uint64_t communicator, int32_t producer, uint32_t place) {
    ValueHead head = Call(communicator, producer, 0, 5);
    head.place = place;
    return head;
  };
  Give(of_place(1, 0, 1), 0, "first", &bytes);
  Give(of_place(2, 8, 2), 0, "other", &bytes);
  const ValueBook book(BytesOf(bytes));
  EXPECT_EQ(TextOf(book.Find(of_place(3, 7, 1))), "first");
  EXPECT_EQ(TextOf(book.Find(of_place(3, 7, 3))), "other");
}

// A root that sent what its kernels would have computed: known to be unknown, in the steady
// iterations that follow too.
TEST(ValueBook, a_root_may_not_know_what_it_sent) {
  std::string bytes;
  Give(Call(1, 0, 4, 0), 0, "", &bytes);
  Give(Call(1, 0, 5, 0), 1, "", &bytes);
  const ValueBook book(BytesOf(bytes));
  for (const uint32_t sequence : {4, 5, 9}) {
    const FoundValue found = book.Find(Call(1, 0, sequence, 5));
    EXPECT_EQ(found.origin, ValueOrigin::kRecorded) << sequence;
    EXPECT_TRUE(found.value.empty()) << sequence;
  }
}

// A rank that was told more the second time sends something else, and repeats another iteration.
TEST(ValueBook, what_was_recorded_last_counts) {
  std::string bytes;
  for (int32_t call = 0; call < 4; ++call) {
    Give(Call(1, 0, static_cast<uint32_t>(call), 0), call, Numbered('a', call), &bytes);
  }
  for (int32_t call = 0; call < 4; ++call) {
    Give(Call(1, 0, static_cast<uint32_t>(call), 0), (call - 1) / 2, Numbered('b', call), &bytes);
  }
  const ValueBook book(BytesOf(bytes));
  EXPECT_EQ(TextOf(book.Find(Call(1, 0, 0, 2))), "b0");
  EXPECT_EQ(TextOf(book.Find(Call(1, 0, 3, 2))), "b3");
  EXPECT_EQ(TextOf(book.Find(Call(1, 0, 6, 2))), "b0");
}

// It may have been recorded for longer the first time, with values that were not what it is sent.
TEST(ValueBook, nothing_is_left_of_what_was_recorded_before) {
  std::string bytes;
  for (int32_t call = 0; call < 12; ++call) {
    Give(Call(1, 0, static_cast<uint32_t>(call), 0), call - 1, Numbered('a', call % 10), &bytes);
  }
  for (int32_t call = 0; call < 3; ++call) {
    Give(Call(1, 0, static_cast<uint32_t>(call), 0), call - 1, Numbered('b', call), &bytes);
  }
  const ValueBook book(BytesOf(bytes));
  EXPECT_EQ(TextOf(book.Find(Call(1, 0, 2, 2))), "b2");
  EXPECT_EQ(TextOf(book.Find(Call(1, 0, 7, 2))), "b1");
}

// It then stopped before its steady iteration.
TEST(ValueBook, nothing_repeats_that_was_not_recorded_last) {
  std::string bytes;
  for (int32_t call = 0; call < 4; ++call) {
    Give(Call(1, 0, static_cast<uint32_t>(call), 0), call - 1, Numbered('a', call), &bytes);
  }
  Give(Call(1, 0, 0, 0), -2, "b0", &bytes);
  Give(Call(1, 0, 1, 0), -1, "b1", &bytes);
  const ValueBook book(BytesOf(bytes));
  EXPECT_EQ(TextOf(book.Find(Call(1, 0, 1, 2))), "b1");
  EXPECT_EQ(book.Find(Call(1, 0, 2, 2)).origin, ValueOrigin::kNone);
}

TEST(ValueBook, all_values_of_a_part_may_be_marked) {
  std::string bytes;
  Give(Call(1, 0, 0, 0), 0, "first", &bytes);
  Give(Call(1, 0, 1, 0), 1, "second", &bytes);
  MarkSpeculative(&bytes);
  EXPECT_TRUE(ValueBook(BytesOf(bytes)).Find(Call(1, 0, 0, 5)).speculative);
  EXPECT_EQ(TextOf(ValueBook(BytesOf(bytes)).Find(Call(1, 0, 1, 6))), "second");
}

// From there on its producer may have been misled, in what it repeats too; until it is recorded
// again.
TEST(ValueBook, values_are_speculative_from_the_first_one_on) {
  std::string bytes;
  const auto give = [&](uint32_t sequence, int32_t iteration, bool speculative) {
    ValueHead head = Call(1, 0, sequence, 0);
    head.speculative = speculative ? 1 : 0;
    Give(head, iteration, "x", &bytes);
  };
  give(0, -1, false);
  give(1, 0, true);
  give(2, 1, true);
  const auto is_speculative = [&](uint32_t sequence) {
    return ValueBook(BytesOf(bytes)).Find(Call(1, 0, sequence, 1)).speculative;
  };
  EXPECT_FALSE(is_speculative(0));
  EXPECT_TRUE(is_speculative(1));
  EXPECT_TRUE(is_speculative(5));
  give(0, 0, false);
  give(1, 1, false);
  EXPECT_FALSE(is_speculative(1));
  EXPECT_FALSE(is_speculative(5));
}

TEST(ValueBook, calls_of_another_size_or_place_find_nothing) {
  std::string bytes;
  Give(Call(1, 0, 4, 0), 0, "root0", &bytes);
  const ValueBook book(BytesOf(bytes));
  EXPECT_EQ(book.Find(Call(1, 0, 4, 8)).origin, ValueOrigin::kNone);
  EXPECT_EQ(book.Find(Call(1, 0, 5, 5)).origin, ValueOrigin::kNone);
  ValueHead other = Call(2, 0, 4, 5);
  other.shape = 0;
  EXPECT_EQ(book.Find(other).origin, ValueOrigin::kNone);
  other = Call(2, 0, 4, 5);
  other.source = 1;
  EXPECT_EQ(book.Find(other).origin, ValueOrigin::kNone);
}

TEST(ValueBook, a_send_stands_for_one_that_goes_as_far) {
  std::string bytes;
  ValueHead send = Call(1, 0, 0, 0);
  send.target = 1;
  Give(send, 0, "forward", &bytes);
  const ValueBook book(BytesOf(bytes));
  ValueHead later = Call(2, 48, 0, 7);
  later.source = 3;
  later.target = 4;
  EXPECT_EQ(TextOf(book.Find(later)), "forward");
  later.target = 2;
  EXPECT_EQ(book.Find(later).origin, ValueOrigin::kNone);
}

TEST(ValueBook, what_is_past_the_recording_repeats_its_steady_iteration) {
  std::string values;
  Give(Call(1, 0, 0, 0), 0, "start", &values);
  // Two values per iteration, three collectives of the communicator.
  for (int32_t iteration = 0; iteration < 3; ++iteration) {
    const auto first = static_cast<uint32_t>(1 + 3 * iteration);
    Give(Call(1, 0, first, 0), 4 + iteration, Numbered('a', iteration), &values);
    Give(Call(1, 0, first + 2, 0), 4 + iteration, Numbered('b', iteration), &values);
  }
  CountIterationsFrom(5, &values);
  const ValueBook book(BytesOf(values));
  EXPECT_EQ(TextOf(book.Find(Call(1, 0, 9, 2))), "b2");
  EXPECT_EQ(TextOf(book.Find(Call(1, 0, 301, 2))), "a1");
  EXPECT_EQ(TextOf(book.Find(Call(1, 0, 303, 2))), "b1");
  EXPECT_EQ(book.Find(Call(1, 0, 302, 2)).origin, ValueOrigin::kNone);
}

TEST(ValueBook, a_prefix_of_a_book_is_a_book) {
  std::string bytes;
  Give(Call(1, 0, 0, 0), 0, "first", &bytes);
  const size_t end = bytes.size();
  Give(Call(1, 0, 1, 0), 0, "second", &bytes);
  const ValueBook before(BytesOf(bytes).first(end));
  EXPECT_EQ(TextOf(before.Find(Call(1, 0, 0, 5))), "first");
  EXPECT_EQ(before.Find(Call(1, 0, 1, 6)).origin, ValueOrigin::kNone);
}

ValueHead Contribution(int32_t rank, uint32_t sequence, uint8_t type = 0x40) {
  ValueHead head = Call(1, rank, sequence, 0);
  head.shape = 0;
  head.source = rank;
  head.operation = static_cast<uint8_t>(3 | type);
  head.steers = type == 0x40 ? 1 : 0;
  return head;
}

TEST(ValueBook, contributions_are_those_of_the_same_call_and_type) {
  std::string bytes;
  Give(Contribution(4, 1), 0, "four", &bytes);
  Give(Contribution(2, 1), 0, "two.", &bytes);
  Give(Contribution(3, 2), 0, "late", &bytes);
  Give(Contribution(5, 1, 0x10), 0, "object of another size", &bytes);
  const ValueBook book(BytesOf(bytes));
  ValueHead call = Contribution(0, 1);
  call.payload_bytes = 4;
  const auto found = book.Contributions(call, false);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].first, 2);
  EXPECT_EQ(found[1].first, 4);
  call = Contribution(0, 1, 0x10);
  call.payload_bytes = 4;
  EXPECT_TRUE(book.Contributions(call, false).empty());
  EXPECT_EQ(book.Contributions(call, true).size(), 1U);
}

TEST(ValueBook, others_contributions_end_where_the_last_different_one_does) {
  std::string bytes;
  Give(Contribution(0, 0), 0, "same", &bytes);
  Give(Contribution(0, 1), 0, "one.", &bytes);
  Give(Contribution(1, 0), 0, "same", &bytes);
  Give(Contribution(1, 1), 0, "two.", &bytes);
  const size_t second = bytes.size();
  Give(Contribution(2, 1), 0, "one.", &bytes);
  Give(Contribution(3, 0, 0x10), 0, "objects do not steer", &bytes);
  const size_t third = bytes.size();
  const ValueBook book(BytesOf(bytes));
  const std::map<int32_t, size_t> others = book.OthersContributions();
  ASSERT_EQ(others.size(), 3U);
  EXPECT_LE(others.at(0), second);
  EXPECT_GT(others.at(0), 0U);
  EXPECT_GT(others.at(1), second);
  EXPECT_LE(others.at(1), third);
  EXPECT_LE(others.at(2), second);
}

TEST(ValueBook, a_rank_is_like_the_nearest_that_contributed) {
  std::string bytes;
  Give(Contribution(0, 0), 0, "low.", &bytes);
  Give(Contribution(8, 0), 0, "high", &bytes);
  const ValueBook book(BytesOf(bytes));
  std::string like;
  Give(Contribution(3, 0), 0, "low.", &like);
  Give(Contribution(3, 7), 0, "of a call that nobody else made", &like);
  EXPECT_FALSE(book.HasOtherContributions(BytesOf(like)));
  std::string unlike;
  Give(Contribution(6, 0), 0, "low.", &unlike);
  EXPECT_TRUE(book.HasOtherContributions(BytesOf(unlike)));
}

// Steady iterations have one call each; the odd one has more, so that later numbers are not known.
TEST(ValueBook, nothing_is_repeated_after_an_odd_iteration) {
  std::string values;
  for (int32_t i = 0; i < 4; ++i) {
    Give(Call(1, 0, static_cast<uint32_t>(i), 0), i, Numbered('v', i), &values);
  }
  MarkOdd(3, &values);
  CountIterationsFrom(1, &values);
  const ValueBook book(BytesOf(values));
  EXPECT_EQ(TextOf(book.Find(Call(1, 0, 3, 2))), "v3");
  EXPECT_EQ(book.Find(Call(1, 0, 4, 2)).origin, ValueOrigin::kNone);
}

}  // namespace
}  // namespace prism::channel
