// prism check's matching: waits longer than a time-out, CPU groups, the store, GPUs.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "slicer/check/check.h"
#include "tests/slicer/check_script.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;

TEST(Check, a_wait_longer_than_the_time_out_says_both_numbers) {
  std::vector<RankCalls> ranks = {Started(0).Sleep(660 * kNsPerSecond).Sum(0, 9).Take()};
  for (uint32_t rank = 1; rank < 3; ++rank) {
    ranks.push_back(Started(rank).Sum(0, 9).Take());
  }
  const CheckFault fault = OnlyFault(ranks);
  EXPECT_EQ(fault.kind, FaultKind::kTimeout);
  EXPECT_NE(fault.sentence.find("660 s"), std::string::npos) << fault.sentence;
  EXPECT_NE(fault.sentence.find("600 s"), std::string::npos) << fault.sentence;
  ranks[0] = Started(0).Sleep(540 * kNsPerSecond).Sum(0, 9).Take();
  EXPECT_TRUE(CheckCalls(ranks).faults.empty());
}

TEST(Check, a_communicator_is_waited_for_as_long_as_the_store_waits) {
  const auto script = [](uint32_t rank) { return Script(rank).Group({0, 1, 2}, 1); };
  std::vector<RankCalls> ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(script(rank)
                        .Sleep(rank == 2 ? 660 * kNsPerSecond : 0)
                        .Communicator(7, {0, 1, 2})
                        .Sum(0, 9)
                        .Take());
  }
  const CheckFault fault = OnlyFault(ranks);
  EXPECT_EQ(fault.kind, FaultKind::kTimeout);
  EXPECT_NE(fault.sentence.find("660 s in the creation of the communicator"), std::string::npos)
      << fault.sentence;
  EXPECT_NE(fault.notes.at(0).find("the store would end the job"), std::string::npos)
      << fault.notes.at(0);
}

TEST(Check, collectives_of_a_cpu_group_meet_by_kind_and_root) {
  const graph::CollectiveShape sum = {.kind = CollectiveKind::kAllReduce, .bytes = -1};
  std::vector<RankCalls> ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(Started(rank).OnCpu(0).Collective(0, 9, sum).Take());
  }
  EXPECT_TRUE(CheckCalls(ranks).faults.empty());
  ranks[0] = Started(0).OnCpu(0).Sleep(660 * kNsPerSecond).Collective(0, 9, sum).Take();
  const CheckFault late = OnlyFault(ranks);
  EXPECT_NE(late.sentence.find("all_reduce (train.py:9"), std::string::npos) << late.sentence;
  EXPECT_NE(late.notes.at(0).find("gloo would end the job"), std::string::npos) << late.notes.at(0);
  ranks[0] = Started(0).OnCpu(0).Collective(0, 9, {.kind = CollectiveKind::kBroadcast}).Take();
  EXPECT_EQ(OnlyFault(ranks).calls.size(), 2U);
}

TEST(Check, messages_of_a_cpu_group_wait_for_their_receiver) {
  const auto cpu = [](uint32_t rank) { return Started(rank).OnCpu(0); };
  // Crossing sends: NCCL may buffer them, gloo does not.
  const CheckFault crossed = OnlyFault({cpu(0).Message(true, 1, 5).Message(false, 1, 6).Take(),
                                        cpu(1).Message(true, 0, 5).Message(false, 0, 6).Take()});
  EXPECT_EQ(crossed.waiting, RanksFrom({0, 1}));
  // What is received may have room for more than is sent, not for less.
  EXPECT_TRUE(CheckCalls(std::vector<RankCalls>{cpu(0).Message(true, 1, 5, 64).Take(),
                                                cpu(1).Message(false, 0, 6, 128).Take()})
                  .faults.empty());
  EXPECT_EQ(
      OnlyFault({cpu(0).Message(true, 1, 5, 128).Take(), cpu(1).Message(false, 0, 6, 64).Take()})
          .kind,
      FaultKind::kSize);
  // One more send than there are receives, unless the receiver's are not all known.
  std::vector<RankCalls> ranks = {cpu(0).Message(true, 1, 5).Message(true, 1, 6).Take(),
                                  cpu(1).Message(false, 0, 7).Take()};
  EXPECT_TRUE(NamesLine(OnlyFault(ranks), 0, 6));
  ranks[1].communicators[0].hides_calls = true;
  EXPECT_TRUE(CheckCalls(ranks).faults.empty());
}

TEST(Check, a_key_that_nobody_sets_comes_before_those_who_wait_for_its_reader) {
  const CheckFault fault = OnlyFault({Started(0).Store("go", 9).Take(CallsEnd::kBlocked),
                                      Started(1).Sum(0, 10).Take(), Started(2).Sum(0, 10).Take()});
  EXPECT_EQ(fault.kind, FaultKind::kMissingCall);
  EXPECT_EQ(fault.waiting, RanksFrom({0}));
  ASSERT_EQ(fault.calls.size(), 2U);
  EXPECT_EQ(fault.calls[0].source.line, 9);
  EXPECT_EQ(fault.calls[1].source.line, 10);
}

TEST(Check, a_key_is_waited_for_until_the_only_rank_that_sets_it_does) {
  const auto waiting = [](uint32_t rank) { return Started(rank).Store("go", 9).Sum(0, 10).Take(); };
  std::vector<RankCalls> ranks = {Started(0).Store("go", 5, true).Sum(0, 10).Take(), waiting(1),
                                  waiting(2)};
  EXPECT_TRUE(CheckCalls(ranks).faults.empty());
  // It sets it only behind a collective with those who wait for it.
  ranks[0] = Started(0).Sum(0, 10).Store("go", 5, true).Take();
  const CheckFault circle = OnlyFault(ranks);
  EXPECT_EQ(circle.kind, FaultKind::kCycle);
  EXPECT_TRUE(NamesLine(circle, 0, 10));
  EXPECT_TRUE(NamesLine(circle, 1, 9));
  // One of two that set it is enough.
  ranks[2] = Started(2).Store("go", 5, true).Sum(0, 10).Take();
  EXPECT_TRUE(CheckCalls(ranks).faults.empty());
  ranks[2] = Started(2).Sum(0, 10).Store("go", 5, true).Take();
  EXPECT_EQ(OnlyFault(ranks).kind, FaultKind::kCycle);
}

TEST(Check, the_earliest_of_those_that_set_a_key_ends_the_wait) {
  const auto sets_after = [](uint32_t rank, int64_t seconds) {
    return Started(rank).Sleep(seconds * kNsPerSecond).Store("go", 5, true).Take();
  };
  const RankCalls reader = Started(1).Store("go", 9).Take();
  EXPECT_TRUE(CheckCalls(std::vector<RankCalls>{sets_after(0, 400), reader, sets_after(2, 200)})
                  .faults.empty());
  const CheckFault late = OnlyFault({sets_after(0, 400), reader, sets_after(2, 500)});
  EXPECT_EQ(late.kind, FaultKind::kTimeout);
  EXPECT_EQ(late.ranks, RanksFrom({0, 1}));
  // One that sets it later, because it waits for the reader, does not delay it.
  EXPECT_TRUE(CheckCalls(std::vector<RankCalls>{Started(0).Store("go", 5, true).Sum(0, 10).Take(),
                                                Started(1).Store("go", 9).Sum(0, 10).Take(),
                                                Started(2).Sum(0, 10).Store("go", 5, true).Take()})
                  .faults.empty());
}

// Their order is that of their thread; when they begin is not known.
TEST(Check, calls_of_another_thread_meet_by_number) {
  const auto on_side = [](Script script, int calls) {
    RankCalls made = script.OnCpu(0).Take();
    for (int i = 0; i < calls; ++i) {
      Call call = {.kind = CallKind::kCollective, .stream = 1, .is_untimed = true};
      call.shape = {.kind = CollectiveKind::kBroadcast, .root = 0};
      if (i > 0) {
        call.needs = {{1, static_cast<uint32_t>(i)}};
      }
      made.calls.push_back(call);
    }
    return made;
  };
  const RankCalls slow = on_side(Started(0).Sleep(900 * kNsPerSecond).Store("own", 5, true), 3);
  const RankCalls usual = on_side(Started(1), 3);
  EXPECT_TRUE(
      CheckCalls(std::vector<RankCalls>{slow, usual, on_side(Started(2), 3)}).faults.empty());
  const CheckFault fault = OnlyFault({slow, usual, on_side(Started(2), 2)});
  EXPECT_EQ(fault.kind, FaultKind::kLeftEarly);
  EXPECT_EQ(fault.waiting, RanksFrom({0, 1}));
}

TEST(Check, a_key_that_is_set_too_late_says_both_numbers) {
  const CheckFault late =
      OnlyFault({Started(0).Sleep(400 * kNsPerSecond).Store("go", 5, true).Sum(0, 10).Take(),
                 Started(1).Store("go", 9).Sum(0, 10).Take(),
                 Started(2).Sleep(200 * kNsPerSecond).Store("go", 9).Sum(0, 10).Take()});
  EXPECT_EQ(late.kind, FaultKind::kTimeout);
  EXPECT_EQ(late.ranks, RanksFrom({0, 1}));
  EXPECT_EQ(late.waiting, RanksFrom({1}));
  EXPECT_NE(late.sentence.find("waits 400 s in store.get of key go"), std::string::npos)
      << late.sentence;
  EXPECT_NE(late.sentence.find("the store's time-out of 300 s"), std::string::npos)
      << late.sentence;
}

TEST(Check, two_ranks_on_one_gpu_are_warned_of) {
  std::vector<RankCalls> ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(Started(rank).Sum(0, 10).Take());
    ranks.back().communicators[0].node = rank == 2 ? 1 : 0;
    ranks.back().communicators[0].device = 0;
  }
  const CheckResult shared = CheckCalls(ranks);
  EXPECT_TRUE(shared.faults.empty());
  ASSERT_EQ(shared.warnings.size(), 1U);
  EXPECT_TRUE(shared.warnings[0].starts_with("ranks 0, 1 use device 0")) << shared.warnings[0];
  ranks[1].communicators[0].device = 1;
  EXPECT_TRUE(CheckCalls(ranks).warnings.empty());
}

}  // namespace
}  // namespace prism::slicer
