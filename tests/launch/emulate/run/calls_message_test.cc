// What a rank does with others arrives at process 0 as it was recorded.
#include "launch/emulate/run/calls_message.h"

#include <string>

#include <gtest/gtest.h>

namespace prism::launch {
namespace {

TEST(CallsMessage, carries_all_that_a_rank_does) {
  slicer::RankCalls sent = {.rank = Rank(7), .steps = 3, .end = slicer::CallsEnd::kFailed};
  sent.failure = "it failed\n";
  sent.sources.push_back({"train.py", 12, "save"});
  sent.groups.push_back({"pair", {Rank(6), Rank(7)}, 600, 2});
  sent.communicators.push_back({99, {Rank(7), Rank(6)}, "pair", 600, true});
  sent.communicators[0].hides_calls = true;
  sent.communicators[0].node = 3;
  sent.communicators[0].device = 2;
  sent.told_ranks = {{5, true}};
  sent.told_while_recorded = 1;
  sent.store_calls = {{.text = "store.set of key go", .is_set = true, .keys = {"go"}}};
  sent.changes = {{1, "all_reduce"}};
  sent.assumptions = {"a file"};
  sent.calls.push_back({.kind = slicer::CallKind::kCollective,
                        .stream = 4,
                        .source = 1,
                        .step = 2,
                        .is_barrier = true,
                        .overlaps = true,
                        .is_dropped = true,
                        .gap_ns = 5,
                        .shape = {.root = 6, .bytes = 1024},
                        .needs = {{0, 3}}});
  sent.calls.push_back({.kind = slicer::CallKind::kTransfers,
                        .transfers = {{.is_send = true, .peer = Rank(6), .bytes = 8}}});
  WireWriter message;
  PutCalls(sent, &message);
  const std::string bytes = message.Take();
  WireReader reader(bytes);
  const slicer::RankCalls got = GetCalls(&reader);
  EXPECT_TRUE(reader.empty());
  EXPECT_EQ(got.rank, sent.rank);
  EXPECT_EQ(got.steps, 3);
  EXPECT_EQ(got.end, slicer::CallsEnd::kFailed);
  EXPECT_EQ(got.failure, sent.failure);
  EXPECT_EQ(got.sources, sent.sources);
  ASSERT_EQ(got.groups.size(), 1U);
  EXPECT_EQ(got.groups[0].members, sent.groups[0].members);
  EXPECT_EQ(got.groups[0].number, 2);
  ASSERT_EQ(got.communicators.size(), 1U);
  EXPECT_EQ(got.communicators[0].identity, 99U);
  EXPECT_EQ(got.communicators[0].members, sent.communicators[0].members);
  EXPECT_TRUE(got.communicators[0].is_default);
  EXPECT_TRUE(got.communicators[0].hides_calls);
  EXPECT_EQ(got.communicators[0].node, 3);
  EXPECT_EQ(got.communicators[0].device, 2);
  ASSERT_EQ(got.told_ranks.size(), 1U);
  EXPECT_EQ(got.told_ranks[0].number, 5);
  EXPECT_TRUE(got.told_ranks[0].is_place);
  EXPECT_EQ(got.told_while_recorded, 1);
  ASSERT_EQ(got.calls.size(), 2U);
  EXPECT_TRUE(got.calls[0].is_dropped);
  EXPECT_TRUE(got.calls[0].overlaps);
  EXPECT_EQ(got.store_calls, sent.store_calls);
  EXPECT_EQ(got.changes, sent.changes);
  EXPECT_EQ(got.assumptions, sent.assumptions);
  EXPECT_EQ(got.calls[0].shape, sent.calls[0].shape);
  EXPECT_TRUE(got.calls[0].is_barrier);
  ASSERT_EQ(got.calls[0].needs.size(), 1U);
  EXPECT_EQ(got.calls[0].needs[0].count, 3U);
  ASSERT_EQ(got.calls[1].transfers.size(), 1U);
  EXPECT_EQ(got.calls[1].transfers[0].peer, Rank(6));
}

}  // namespace
}  // namespace prism::launch
