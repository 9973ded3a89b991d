// Probing a program's ranks (slicer/probe/prober.h) and the grid that their groups form
// (slicer/probe/derive_grid.h).
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/job/rank_grid.h"
#include "slicer/probe/derive_grid.h"
#include "slicer/probe/prober.h"
#include "slicer/workloads/program_builder.h"

namespace prism::slicer {
namespace {

using graph::Fragment;
using graph::GridAxis;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr graph::CollectiveShape kSum = {graph::CollectiveKind::kAllReduce, DataType::kFloat32,
                                         graph::ReduceOp::kSum, -1, 64};

// tp 2 × dp 8 × pp 3.
const graph::RankGrid& Grid() {
  static const graph::RankGrid grid({{"tp", 2}, {"dp", 8}, {"pp", 3}});
  return grid;
}

std::vector<Rank> Along(Rank rank, size_t axis) {
  graph::GridGroup group;
  group.coordinates.resize(3);
  for (int32_t i = 0; i < Grid().axes()[axis].size; ++i) {
    group.coordinates[axis].push_back(i);
  }
  return Grid().MembersOf(rank, group);
}

// A rank of a program with pipeline stages, whose optimizer launches as many kernels as `shards`
// gives for its coordinate along dp.
Fragment Record(Rank rank, const std::function<int(int32_t)>& shards) {
  const int32_t stage = Grid().Coordinate(rank, 2);
  ProgramBuilder builder(rank, 1);
  builder.MarkerBegin("iteration");
  const uint16_t tp = builder.CommSlot("TENSOR_MODEL_PARALLEL_GROUP", Along(rank, 0));
  builder.Collective(0, tp, kSum);
  const uint16_t pp = builder.CommSlot("unnamed", Along(rank, 2));
  if (stage > 0) {
    builder.PeerGroup(0, {{{false, pp, builder.PeerSlot(Grid().Moved(rank, 2, stage - 1)), 32}}});
  }
  if (stage < 2) {
    builder.PeerGroup(0, {{{true, pp, builder.PeerSlot(Grid().Moved(rank, 2, stage + 1)), 32}}});
  }
  if (stage != 1) {
    builder.Collective(
        0, builder.CommSlot("embedding", {Grid().Moved(rank, 2, 0), Grid().Moved(rank, 2, 2)}),
        kSum);
  }
  builder.Collective(0, builder.CommSlot("mesh_dp", Along(rank, 1)), kSum);
  for (int i = 0; i < shards(Grid().Coordinate(rank, 1)); ++i) {
    builder.Kernel(0, "adam", 100);
  }
  builder.MarkerEnd("iteration");
  return builder.Finish();
}

// All rounds: what was recorded, and the plan.
struct Outcome {
  std::vector<Fragment> fragments;
  ProbeStep last;
};

Result<Outcome> ProbeAll(ProbeOptions options, const std::function<Fragment(Rank)>& record) {
  options.given.dp = 48;
  Outcome outcome;
  while (true) {
    PRISM_ASSIGN_OR_RETURN(outcome.last, NextProbe(options, outcome.fragments));
    if (outcome.last.record.empty()) {
      return outcome;
    }
    for (const Rank rank : outcome.last.record) {
      outcome.fragments.push_back(record(rank));
    }
  }
}

Result<Outcome> ProbeAll(const ProbeOptions& options, const std::function<int(int32_t)>& shards) {
  return ProbeAll(options,
                  std::function<Fragment(Rank)>([&](Rank rank) { return Record(rank, shards); }));
}

ProbeOptions Options(int32_t spot_checks, int32_t max_roles = 256, std::vector<Rank> named = {}) {
  ProbeOptions options;
  options.named = std::move(named);
  options.max_roles = max_roles;
  options.spot_checks = spot_checks;
  return options;
}

TEST(Probe, finds_the_grid_and_a_role_for_each_stage) {
  const Result<Outcome> outcome = ProbeAll(Options(0), [](int32_t) { return 1; });
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_THAT(outcome->last.axes,
              ElementsAre(GridAxis{"tp", 2}, GridAxis{"dp", 8}, GridAxis{"pp", 3}));
  const SlicePlan& plan = outcome->last.plan;
  ASSERT_EQ(plan.roles.size(), 3U);
  EXPECT_EQ(plan.roles[1].name, "stage 1");
  EXPECT_EQ(plan.roles[1].representative, Rank(16));
  EXPECT_EQ(plan.role_of[47], 2U);
  EXPECT_TRUE(plan.approximated_axes.empty());
  // The ends, the second and last along each axis; stage 2 is the last.
  EXPECT_EQ(outcome->fragments.size(), 7U);
}

TEST(Probe, a_sharded_optimizer_marks_its_axis_and_splits_no_roles) {
  const Result<Outcome> outcome =
      ProbeAll(Options(1, 256, {Rank(21)}), [](int32_t dp) { return 1 + dp % 3; });
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  const SlicePlan& plan = outcome->last.plan;
  EXPECT_EQ(plan.roles.size(), 3U);
  EXPECT_THAT(plan.approximated_axes, ElementsAre(1));
  EXPECT_TRUE(std::count(plan.spot_checks.begin(), plan.spot_checks.end(), Rank(21)) == 1)
      << "what the user named is recorded";
}

// Every rank addresses the members of its group in turn, including itself, as in an exchange of
// uneven sizes: every rank has the same peers.
TEST(Probe, ranks_of_an_exchange_are_alike) {
  const auto record = [](Rank rank) {
    ProgramBuilder builder(rank, 1);
    const uint16_t group = builder.CommSlot("unnamed", Along(rank, 1));
    graph::PeerGroup exchange;
    for (const Rank peer : Along(rank, 1)) {
      exchange.transfers.push_back({true, group, builder.PeerSlot(peer), 32});
      exchange.transfers.push_back({false, group, builder.PeerSlot(peer), 32});
    }
    builder.PeerGroup(0, exchange);
    builder.Collective(0, builder.CommSlot("mesh_tp", Along(rank, 0)), kSum);
    builder.Collective(0, builder.CommSlot("mesh_pp", Along(rank, 2)), kSum);
    return builder.Finish();
  };
  const Result<Outcome> outcome = ProbeAll(Options(2), std::function<Fragment(Rank)>(record));
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(outcome->last.plan.roles.size(), 1U);
  EXPECT_THAT(outcome->last.axes,
              ElementsAre(GridAxis{"tp", 2}, GridAxis{"dp", 8}, GridAxis{"pp", 3}))
      << "an exchange makes no pipeline";
}

// Each rank sends to the fourth of its group along dp, which receives from all others, as in a
// gather.
Fragment Gather(Rank rank, const std::function<int(int32_t)>& shards) {
  constexpr int32_t kRoot = 3;
  ProgramBuilder builder(rank, 1);
  const uint16_t group = builder.CommSlot("unnamed", Along(rank, 1));
  const bool is_root = Grid().Coordinate(rank, 1) == kRoot;
  graph::PeerGroup gather;
  for (const Rank member : Along(rank, 1)) {
    if (member != rank && (is_root || Grid().Coordinate(member, 1) == kRoot)) {
      gather.transfers.push_back({!is_root, group, builder.PeerSlot(member), 32});
    }
  }
  builder.PeerGroup(0, gather);
  builder.Collective(0, builder.CommSlot("mesh_tp", Along(rank, 0)), kSum);
  builder.Collective(0, builder.CommSlot("mesh_pp", Along(rank, 2)), kSum);
  for (int i = 0; i < shards(Grid().Coordinate(rank, 1)); ++i) {
    builder.Kernel(0, "adam", 100);
  }
  return builder.Finish();
}

TEST(Probe, ranks_of_a_gather_share_a_role_beside_its_root) {
  const auto record = [](Rank rank) { return Gather(rank, [](int32_t) { return 1; }); };
  const Result<Outcome> outcome = ProbeAll(Options(0), std::function<Fragment(Rank)>(record));
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  const SlicePlan& plan = outcome->last.plan;
  ASSERT_EQ(plan.roles.size(), 2U);
  EXPECT_EQ(plan.roles[0].name, "dp not 3");
  EXPECT_EQ(plan.roles[1].name, "dp 3");
  EXPECT_EQ(plan.roles[1].representative, Rank(6));
  EXPECT_EQ(std::ranges::count(plan.role_of, 1U), 6) << "the fourth of each dp group";
  EXPECT_TRUE(plan.approximated_axes.empty());
  // The ends, the second and last along each axis, the root, one in the middle of the others.
  EXPECT_EQ(outcome->fragments.size(), 9U);
}

TEST(Probe, ranks_of_a_gather_may_be_only_like_each_other) {
  const auto record = [](Rank rank) { return Gather(rank, [](int32_t dp) { return 1 + dp % 2; }); };
  const Result<Outcome> outcome = ProbeAll(Options(0), std::function<Fragment(Rank)>(record));
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(outcome->last.plan.roles.size(), 2U);
  EXPECT_THAT(outcome->last.plan.approximated_axes, ElementsAre(1));
}

// One group of all 48 ranks, whose members send `bytes` of themselves to each.
Fragment Exchange(Rank rank, const std::function<int64_t(uint32_t)>& bytes, int kernels) {
  ProgramBuilder builder(rank, 1);
  std::vector<Rank> all;
  for (uint32_t member = 0; member < 48; ++member) {
    all.emplace_back(member);
  }
  const uint16_t group = builder.CommSlot("unnamed", all);
  graph::PeerGroup exchange;
  for (const Rank peer : all) {
    exchange.transfers.push_back({true, group, builder.PeerSlot(peer), bytes(rank.value())});
    exchange.transfers.push_back({false, group, builder.PeerSlot(peer), bytes(peer.value())});
  }
  builder.PeerGroup(0, exchange);
  for (int i = 0; i < kernels; ++i) {
    builder.Kernel(0, "bag", 100);
  }
  return builder.Finish();
}

// As of 100 tables on 48 ranks: the first four have three.
TEST(Probe, some_of_each_class_of_an_unequal_exchange_are_recorded) {
  const auto tables = [](uint32_t rank) { return int64_t{rank < 4 ? 3 : 2} * 64; };
  const auto record = [&](Rank rank) {
    return Exchange(rank, tables, static_cast<int>(tables(rank.value()) / 64));
  };
  const Result<Outcome> outcome = ProbeAll(Options(0), std::function<Fragment(Rank)>(record));
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  const SlicePlan& plan = outcome->last.plan;
  ASSERT_EQ(plan.roles.size(), 2U);
  EXPECT_EQ(plan.roles[0].name, "dp 0");
  EXPECT_EQ(plan.roles[1].name, "dp 4");
  EXPECT_EQ(std::ranges::count(plan.role_of, 0U), 4);
  EXPECT_TRUE(plan.approximated_axes.empty());
  EXPECT_EQ(outcome->fragments.size(), 8U) << "0, 1, 2 and 3, of the others 4, 5, 26 and 47";
}

// Each sends as much to itself as no other would expect of its class.
TEST(Probe, all_ranks_of_an_exchange_are_recorded_where_a_class_does_not_do_the_same) {
  const auto record = [](Rank rank) {
    Fragment fragment =
        Exchange(rank, [](uint32_t sender) { return int64_t{sender < 4 ? 3 : 2} * 64; }, 1);
    for (auto& transfer : fragment.program.peer_groups[0].transfers) {
      if (fragment.peer_slots[transfer.peer_slot] == rank) {
        transfer.bytes += 64 * rank.value();
      }
    }
    return fragment;
  };
  const Result<Outcome> outcome = ProbeAll(Options(0), std::function<Fragment(Rank)>(record));
  ASSERT_TRUE(outcome.ok()) << outcome.status().message();
  EXPECT_EQ(outcome->last.plan.roles.size(), 48U);
}

// Messages along only one axis, in groups of calls: by step, the rank to or from which they go,
// relative to the own rank.
std::string NameOfMessages(int32_t size, const std::function<std::vector<int>(int32_t)>& steps) {
  std::vector<Fragment> ranks;
  for (int32_t own = 0; own < size; ++own) {
    ProgramBuilder builder(Rank(static_cast<uint32_t>(own)), 1);
    std::vector<Rank> all;
    for (int32_t member = 0; member < size; ++member) {
      all.emplace_back(static_cast<uint32_t>(member));
    }
    const uint16_t group = builder.CommSlot("unnamed", all);
    graph::PeerGroup calls;
    for (const int step : steps(own)) {
      if (step == 0) {
        builder.PeerGroup(0, std::exchange(calls, {}));
        continue;
      }
      const int32_t peer = (own + step % 10 + size) % size;
      calls.transfers.push_back(
          {std::abs(step) > 10, group, builder.PeerSlot(Rank(static_cast<uint32_t>(peer))), 32});
    }
    ranks.push_back(builder.Finish());
  }
  std::vector<const Fragment*> recorded;
  for (const Fragment& rank : ranks) {
    recorded.push_back(&rank);
  }
  graph::ParallelSizes sizes;
  sizes.dp = size;
  const auto grid = DeriveGrid(sizes, recorded);
  return grid.ok() ? grid->front().name : std::string(grid.status().message());
}

// 11 and -11: sends to the next and to the one before; 1 and -1: gets from them; 0: a call ends.
TEST(Probe, messages_that_go_round_are_no_pipeline) {
  const auto ring = [](int32_t) { return std::vector{11, -1, 0, 11, -1, 0}; };
  EXPECT_EQ(NameOfMessages(2, ring), "cp");
  EXPECT_EQ(NameOfMessages(6, ring), "cp");
  EXPECT_EQ(NameOfMessages(2,
                           [](int32_t stage) {
                             return stage == 0 ? std::vector{11, 0, 11, 1, 0, 1, 0}
                                               : std::vector{-1, 0, -11, -1, 0, -11, 0};
                           }),
            "pp");
  // Two chunks of layers: the last stage sends to the first.
  EXPECT_EQ(NameOfMessages(4,
                           [](int32_t stage) {
                             return stage == 0 ? std::vector{11, 0, -1, 0, 11, 0, 1, -11, 0, 1, 0}
                                    : stage == 3
                                        ? std::vector{-1, 0, 11, 0, -1, 0, -11, 1, 0, -11, 0}
                                        : std::vector{-1, 11, 0, -1, 11, 0, 1, -11, 0, 1, -11, 0};
                           }),
            "pp");
}

// torch makes a communicator for each two ranks of a group that send to each other directly.
TEST(Probe, pairs_of_a_group_are_no_axis) {
  const auto with_pairs = [](uint32_t rank, std::vector<std::vector<Rank>> groups) {
    Fragment fragment;
    fragment.rank = Rank(rank);
    for (std::vector<Rank>& members : groups) {
      fragment.comm_slots.push_back({.name = "pp", .members = std::move(members)});
    }
    fragment.comm_slots.push_back({.name = "dp", .members = {Rank(rank), Rank(rank + 4)}});
    return fragment;
  };
  const Fragment first = with_pairs(0, {{Rank(0), Rank(1)}});
  const Fragment second = with_pairs(1, {{Rank(0), Rank(1)}, {Rank(1), Rank(2)}});
  graph::ParallelSizes sizes;
  sizes.dp = 8;
  const auto grid = DeriveGrid(sizes, {&first, &second});
  ASSERT_TRUE(grid.ok()) << grid.status().message();
  ASSERT_EQ(grid->size(), 2U);
  EXPECT_EQ(grid->front().size, 4);
  EXPECT_EQ(grid->back().size, 2);
}

TEST(Probe, more_roles_than_allowed_are_refused_with_the_axis) {
  const Result<Outcome> outcome = ProbeAll(Options(0, 2), [](int32_t) { return 1; });
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.status().message(), HasSubstr("along pp (3)"));
}

TEST(Probe, groups_that_form_no_grid_ask_for_the_layout) {
  Fragment six = Record(Rank(0), [](int32_t) { return 1; });
  six.comm_slots[0] = {.name = "three", .members = {Rank(0), Rank(1), Rank(2)}};
  six.comm_slots[1] = {.name = "two", .members = {Rank(0), Rank(1)}};
  graph::ParallelSizes sizes;
  sizes.dp = 48;
  const auto grid = DeriveGrid(sizes, {&six});
  ASSERT_FALSE(grid.ok());
  EXPECT_THAT(grid.status().message(), HasSubstr("two ends at 2 ranks, three at 3"));
}

TEST(Probe, sizes_follow_the_names_of_axes_whatever_their_order) {
  EXPECT_EQ(SizesOf({{"tp", 2}, {"dp", 8}, {"pp", 3}}).pp, 3);
  EXPECT_EQ(SizesOf({{"tp", 2}, {"dp", 4}, {"dp_2", 2}, {"pp", 3}}).dp, 8);
  const graph::ParallelSizes pipeline_first = SizesOf({{"pp", 3}, {"tp", 2}});
  EXPECT_EQ(pipeline_first.pp, 3);
  EXPECT_EQ(pipeline_first.tp, 2);
}

}  // namespace
}  // namespace prism::slicer
