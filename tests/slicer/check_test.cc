// prism check's matching: programs of several ranks, right ones and with one change.
#include "slicer/check/check.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "slicer/check/told_ranks.h"
#include "tests/slicer/check_script.h"

namespace prism::slicer {
namespace {

using graph::CollectiveKind;

std::vector<uint32_t> RanksUpTo(uint32_t count) {
  std::vector<uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

TEST(Check, ranks_that_do_the_same_have_no_fault) {
  std::vector<RankCalls> ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(Started(rank).Sum(0, 10).Sum(0, 11).Take());
  }
  const CheckResult result = CheckCalls(ranks);
  EXPECT_TRUE(result.faults.empty());
  EXPECT_TRUE(result.warnings.empty());
}

TEST(Check, a_call_that_nothing_waits_for_is_a_warning) {
  std::vector<RankCalls> ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(Started(rank).Sum(0, 10).Sum(0, 11, 8, false).Take());
    ranks.back().calls.back().is_dropped = rank > 0;
  }
  const CheckResult result = CheckCalls(ranks);
  EXPECT_TRUE(result.faults.empty());
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_EQ(result.warnings[0].find("ranks 1, 2 never wait for all_reduce of 8 float32"), 0U)
      << result.warnings[0];
  EXPECT_NE(result.warnings[0].find("train.py:11"), std::string::npos) << result.warnings[0];
}

TEST(Check, ranks_that_were_not_recorded_are_taken_to_be_there) {
  const std::vector<RankCalls> ranks = {
      Started(0).Sum(0, 10).Message(true, 1, 11).Take(),
      Started(2).Sum(0, 10).Message(false, 1, 12).Take(),
  };
  EXPECT_TRUE(CheckCalls(ranks).faults.empty());
}

TEST(Check, another_size_names_both_lines) {
  const CheckFault fault = OnlyFault({Started(0).Sum(0, 10, 16).Take(),
                                      Started(1).Sum(0, 20).Take(), Started(2).Sum(0, 20).Take()});
  EXPECT_EQ(fault.kind, FaultKind::kSize);
  EXPECT_EQ(fault.ranks, RanksFrom({0}));
  EXPECT_EQ(fault.waiting, RanksFrom({0, 1, 2}));
  EXPECT_TRUE(NamesLine(fault, 0, 10));
  EXPECT_TRUE(NamesLine(fault, 1, 20));
  EXPECT_NE(fault.sentence.find("16 float32"), std::string::npos) << fault.sentence;
}

TEST(Check, another_type_or_root_is_said) {
  const auto with = [](uint32_t rank, DataType type, int32_t root) {
    return Started(rank)
        .Collective(0, 10,
                    {CollectiveKind::kBroadcast, type, graph::ReduceOp::kNone, root,
                     8 * DataTypeBytes(type)})
        .Take();
  };
  EXPECT_EQ(OnlyFault({with(0, DataType::kFloat32, 0), with(1, DataType::kBfloat16, 0),
                       with(2, DataType::kFloat32, 0)})
                .kind,
            FaultKind::kType);
  EXPECT_EQ(OnlyFault({with(0, DataType::kFloat32, 0), with(1, DataType::kFloat32, 1),
                       with(2, DataType::kFloat32, 0)})
                .kind,
            FaultKind::kRoot);
}

TEST(Check, a_call_more_is_named_though_the_rank_waits_in_a_later_one_of_the_usual_line) {
  const auto usual = [](uint32_t rank) {
    return Started(rank).Sum(0, 6).Sum(0, 6).Sum(0, 6).Sum(0, 6).Take();
  };
  const CheckFault fault = OnlyFault(
      {usual(0), Started(1).Sum(0, 6).Sum(0, 6).Sum(0, 17).Sum(0, 6).Sum(0, 6).Take(), usual(2)});
  EXPECT_EQ(fault.kind, FaultKind::kLeftEarly);
  EXPECT_TRUE(NamesLine(fault, 1, 17)) << fault.sentence;
}

TEST(Check, a_rank_that_makes_another_group_instead_is_named_with_that) {
  const auto made = [](uint32_t rank, uint64_t identity, const std::vector<uint32_t>& members) {
    return Started(rank).Communicator(identity, members, 9).Take();
  };
  const CheckFault fault =
      OnlyFault({made(0, 8, {0, 1}), made(1, 9, {1, 2}), Started(2).Sum(0, 10).Take()});
  EXPECT_EQ(fault.kind, FaultKind::kMissingCall);
  EXPECT_TRUE(NamesLine(fault, 0, 9) && NamesLine(fault, 1, 9)) << fault.sentence;
}

TEST(Check, of_a_long_circle_the_first_calls_are_named) {
  std::vector<RankCalls> ranks;
  for (uint32_t rank = 0; rank < 16; ++rank) {
    Script script(rank);
    script.Communicator(7, RanksUpTo(16)).OnCpu(0);
    script.Message(true, (rank + 1) % 16, 5).Message(false, (rank + 15) % 16, 6);
    ranks.push_back(script.Take());
  }
  const CheckFault fault = OnlyFault(ranks);
  EXPECT_EQ(fault.kind, FaultKind::kCycle);
  EXPECT_EQ(fault.ranks.size(), 16U);
  EXPECT_EQ(fault.calls.size(), 4U);
  EXPECT_TRUE(fault.sentence.ends_with("and so on (16 ranks)")) << fault.sentence;
}

TEST(Check, a_call_that_one_rank_leaves_out_is_named) {
  const auto whole = [](uint32_t rank) {
    return Started(rank).Sum(0, 10).Sum(0, 11, 16).Sum(0, 12, 32).Sum(0, 13, 64).Take();
  };
  const CheckFault fault =
      OnlyFault({whole(0), Started(1).Sum(0, 10).Sum(0, 12, 32).Sum(0, 13, 64).Take(), whole(2)});
  EXPECT_EQ(fault.kind, FaultKind::kMissingCall);
  EXPECT_EQ(fault.ranks, RanksFrom({1}));
  EXPECT_TRUE(NamesLine(fault, 0, 11));
  EXPECT_TRUE(fault.sentence.starts_with("rank 1 leaves out a call in call 2")) << fault.sentence;
}

TEST(Check, a_call_more_and_two_that_change_places_are_told_from_one_that_is_left_out) {
  const auto usual = [](uint32_t rank) { return Started(rank).Sum(0, 10).Sum(0, 11, 16).Take(); };
  const CheckFault more =
      OnlyFault({usual(0), Started(1).Sum(0, 9, 32).Sum(0, 10).Sum(0, 11, 16).Take(), usual(2)});
  EXPECT_EQ(more.kind, FaultKind::kMissingCall);
  EXPECT_TRUE(more.sentence.starts_with("rank 1 makes a call more in call 1")) << more.sentence;
  const CheckFault swapped =
      OnlyFault({usual(0), Started(1).Sum(0, 9, 16).Sum(0, 10).Take(), usual(2)});
  EXPECT_EQ(swapped.kind, FaultKind::kOrder);
  EXPECT_TRUE(swapped.sentence.starts_with("ranks make different calls")) << swapped.sentence;
  // The other order also where what follows is like the one that came first.
  const auto steps = [](uint32_t rank, bool is_early) {
    Script script = Started(rank).Sum(0, 11);
    is_early ? script.Sum(0, 10, 64).Sum(0, 11) : script.Sum(0, 11).Sum(0, 10, 64);
    return script.Sum(0, 11).Sum(0, 11).Sum(0, 11).Take();
  };
  EXPECT_EQ(OnlyFault({steps(0, false), steps(1, true), steps(2, false)}).kind, FaultKind::kOrder);
}

TEST(Check, a_rank_that_has_left_is_waited_for_and_the_shift_before_is_shown) {
  std::vector<RankCalls> ranks = {Started(0).Sum(0, 9).Sum(0, 20).Take()};
  for (uint32_t rank = 1; rank < 3; ++rank) {
    ranks.push_back(Started(rank).Sum(0, 20).Take());
  }
  const CheckFault fault = OnlyFault(ranks);
  EXPECT_EQ(fault.kind, FaultKind::kLeftEarly);
  EXPECT_EQ(fault.waiting, RanksFrom({0}));
  EXPECT_TRUE(NamesLine(fault, 0, 20));
  EXPECT_TRUE(NamesLine(fault, 0, 9));
  EXPECT_TRUE(NamesLine(fault, 1, 20));
}

TEST(Check, a_wait_for_a_rank_that_was_not_followed_to_its_end_is_no_fault) {
  EXPECT_TRUE(CheckCalls(std::vector<RankCalls>{Started(0).Sum(0, 10).Sum(0, 11).Take(),
                                                Started(1).Sum(0, 10).Take(CallsEnd::kCut),
                                                Started(2).Sum(0, 10).Sum(0, 11).Take()})
                  .faults.empty());
}

// Both wait for the device before they go on; where they only enqueue, nothing is wrong.
TEST(Check, groups_in_another_order_are_a_circle_only_if_the_host_waits) {
  const auto rank = [](uint32_t number, bool waits) {
    Script script(number);
    script.Group({0, 1}, 1).Communicator(1, {0, 1}).Communicator(2, {0, 1});
    script.Sum(number, 10, 8, waits).Sum(1 - number, 11, 8, waits);
    return script.Take();
  };
  const CheckFault fault = OnlyFault({rank(0, true), rank(1, true)});
  EXPECT_EQ(fault.kind, FaultKind::kCycle);
  EXPECT_EQ(fault.ranks, RanksFrom({0, 1}));
  EXPECT_EQ(fault.waiting, RanksFrom({0, 1}));
  EXPECT_TRUE(CheckCalls(std::vector<RankCalls>{rank(0, false), rank(1, false)}).faults.empty());
}

TEST(Check, communicators_made_in_another_order_are_a_circle) {
  const auto rank = [](uint32_t number) {
    Script script(number);
    script.Group({0, 1}, 1).Communicator(1 + number, {0, 1}).Communicator(2 - number, {0, 1});
    return script.Take();
  };
  EXPECT_EQ(OnlyFault({rank(0), rank(1)}).kind, FaultKind::kCycle);
}

TEST(Check, groups_that_only_their_members_make_are_a_fault) {
  std::vector<RankCalls> ranks;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const uint32_t low = rank / 2 * 2;
    ranks.push_back(Script(rank).Group({0, 1, 2, 3}, 1).Group({low, low + 1}, 5).Take());
  }
  const CheckFault fault = OnlyFault(ranks);
  EXPECT_EQ(fault.kind, FaultKind::kGroup);
  EXPECT_TRUE(NamesLine(fault, 0, 5));
  EXPECT_TRUE(NamesLine(fault, 2, 5));
}

TEST(Check, messages_pair_in_order_and_need_equal_sizes) {
  const auto pair = [](int64_t bytes) {
    return std::vector<RankCalls>{Started(0).Message(true, 1, 5, 64).Take(),
                                  Started(1).Message(false, 0, 6, bytes).Take()};
  };
  EXPECT_TRUE(CheckCalls(pair(64)).faults.empty());
  EXPECT_EQ(OnlyFault(pair(32)).kind, FaultKind::kSize);
}

TEST(Check, sends_that_cross_need_buffers) {
  const CheckResult result = CheckCalls(
      std::vector<RankCalls>{Started(0).Message(true, 1, 5).Message(false, 1, 6).Take(),
                             Started(1).Message(true, 0, 5).Message(false, 0, 6).Take()});
  EXPECT_TRUE(result.faults.empty());
  EXPECT_EQ(result.warnings.size(), 1U);
  constexpr int64_t kLarge = 16 << 20;
  const CheckFault fault =
      OnlyFault({Started(0).Message(true, 1, 5, kLarge).Message(false, 1, 6, kLarge).Take(),
                 Started(1).Message(true, 0, 5, kLarge).Message(false, 0, 6, kLarge).Take()});
  EXPECT_EQ(fault.kind, FaultKind::kCycle);
}

TEST(Check, a_rank_that_fails_alone_is_named_with_where_the_others_are) {
  const std::string failure =
      "the program of rank 1 ended with exit code 1; its last lines:\nTraceback\n"
      "[rank1]: ValueError: no. More of it.\n[rank1]: Set this, see: there\n\nall that it printed";
  std::vector<RankCalls> ranks = {Started(0).Sum(0, 10).Take(),
                                  Started(1).Sum(0, 10).Take(CallsEnd::kFailed, failure),
                                  Started(2).Sum(0, 10).Take()};
  CheckFault fault = OnlyFault(ranks);
  EXPECT_EQ(fault.kind, FaultKind::kLeftEarly);
  EXPECT_EQ(fault.ranks, RanksFrom({1}));
  EXPECT_TRUE(fault.sentence.starts_with("rank 1 ended with exit code 1: ValueError: no, after"))
      << fault.sentence;
  EXPECT_NE(fault.sentence.find("while ranks 0, 2 do not"), std::string::npos) << fault.sentence;
  ranks[1].failure = "the program of rank 1 was killed by signal 15; it printed nothing";
  fault = OnlyFault(ranks);
  EXPECT_TRUE(fault.sentence.starts_with("rank 1 was killed by signal 15, after"))
      << fault.sentence;
  ranks[1].failure = failure;
  ranks[0] = Started(0).Sum(0, 10).Sum(0, 11).Take();
  ranks[2] = Started(2).Sum(0, 10).Sum(0, 11).Take();
  fault = OnlyFault(ranks);
  EXPECT_EQ(fault.waiting, RanksFrom({0, 2}));
  EXPECT_NE(fault.sentence.find("rank 1 ended with exit code 1: ValueError: no"), std::string::npos)
      << fault.sentence;
}

TEST(Check, buffers_that_overlap_are_a_fault_of_their_own) {
  std::vector<RankCalls> ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(Started(rank).Sum(0, 10).Overlapping().Take());
  }
  const CheckFault fault = OnlyFault(ranks);
  EXPECT_EQ(fault.kind, FaultKind::kOverlap);
  EXPECT_EQ(fault.ranks.size(), 3U);
  EXPECT_EQ(fault.calls.at(0).source.line, 10);
}

// Four ranks in a grid of rows and columns, which call on either or on all.
struct Drawn {
  uint32_t communicator;
  int64_t elements;
};

std::vector<RankCalls> Play(const std::vector<std::vector<Drawn>>& calls) {
  std::vector<RankCalls> ranks;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const uint32_t row = rank / 2 * 2;
    const uint32_t column = rank % 2;
    Script script(rank);
    script.Group({0, 1, 2, 3}, 1).Communicator(1, {0, 1, 2, 3});
    script.Communicator(2 + row, {row, row + 1}).Communicator(12 + column, {column, column + 2});
    int32_t line = 100;
    for (const Drawn& call : calls[rank]) {
      script.Sum(call.communicator, line++, call.elements);
    }
    ranks.push_back(script.Take());
  }
  return ranks;
}

// Both are of all ranks; only the first is the default one.
TEST(Check, a_new_group_of_all_ranks_is_not_called_the_default_one) {
  std::vector<RankCalls> ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    RankCalls calls = Started(rank)
                          .Group({0, 1, 2}, 2)
                          .Communicator(8, {0, 1, 2})
                          .Sum(0, 10, 5)
                          .Sum(1, 11, rank == 1 ? 6 : 7)
                          .Take();
    calls.communicators[0].is_default = true;
    ranks.push_back(std::move(calls));
  }
  EXPECT_EQ(OnlyFault(ranks).calls.front().group, "the new group of ranks 0-2");
  ranks[1].calls[4].shape.bytes += 4;  // the default group's
  EXPECT_EQ(OnlyFault(ranks).calls.front().group, "the default group");
}

// Rows of four and columns of two.
TEST(Check, told_ranks_are_recorded_with_members_of_their_groups) {
  RankCalls first = Script(0)
                        .Group({0, 1, 2, 3, 4, 5, 6, 7}, 1)
                        .Group({0, 1, 2, 3}, 2)
                        .Group({4, 5, 6, 7}, 2)
                        .Group({0, 4}, 3)
                        .Group({1, 5}, 3)
                        .Group({2, 6}, 3)
                        .Group({3, 7}, 3)
                        .Take();
  first.told_ranks = {{6, false}};
  const std::vector<Rank> known = RanksFrom({0, 1, 7});
  EXPECT_EQ(RanksToldBy(first, known).told, RanksFrom({6}));
  EXPECT_EQ(RanksToldBy(first, known).others, RanksFrom({2}));  // 7 is in its row
  first.told_ranks = {{1, true}};                               // of a row, or of a column
  EXPECT_EQ(RanksToldBy(first, RanksFrom({0})).told, RanksFrom({1, 4}));
  first.told_ranks = {{0, true}, {7, false}, {-1, false}, {8, false}};
  EXPECT_TRUE(RanksToldBy(first, known).told.empty());
}

TEST(Check, drawn_programs_are_right_and_each_change_of_one_rank_is_found) {
  Rng rng(7, "changes");
  for (int program = 0; program < 200; ++program) {
    std::vector<Drawn> right;
    for (int i = 0; i < 12; ++i) {
      right.push_back({static_cast<uint32_t>(rng.UniformInt(0, 2)), int64_t{1} + i});
    }
    std::vector<std::vector<Drawn>> calls(4, right);
    ASSERT_TRUE(CheckCalls(Play(calls)).faults.empty());
    std::vector<Drawn>& odd = calls[static_cast<size_t>(rng.UniformInt(0, 3))];
    const auto at = static_cast<size_t>(rng.UniformInt(0, 10));
    const auto place = odd.begin() + static_cast<std::ptrdiff_t>(at);
    bool is_wrong = true;
    switch (rng.UniformInt(0, 3)) {
      case 0:
        odd.erase(place);
        break;
      case 1:
        odd.insert(place, Drawn(*place));
        break;
      case 2:
        place->elements += 100;
        break;
      default:
        // A row and a column share only this rank, which may come to them in any order.
        is_wrong = place[0].communicator == place[1].communicator ||
                   place[0].communicator * place[1].communicator == 0;
        std::iter_swap(place, place + 1);
        break;
    }
    EXPECT_NE(CheckCalls(Play(calls)).faults.empty(), is_wrong) << "program " << program;
  }
}

}  // namespace
}  // namespace prism::slicer
