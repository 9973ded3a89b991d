#include "slicer/stitch/stitch.h"

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/diff/diff.h"
#include "graph/file.h"
#include "graph/job/rank_grid.h"
#include "graph/validate/validate.h"
#include "slicer/stitch/adopt.h"
#include "slicer/workloads/program_builder.h"

namespace prism::slicer {
namespace {

using graph::Fragment;
using graph::Graph;
using graph::RankGrid;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr graph::CollectiveShape kSum = {graph::CollectiveKind::kAllReduce, DataType::kFloat32,
                                         graph::ReduceOp::kSum, -1, 64};

// tp 2, dp 2, pp 4: a rank's program depends only on its stage.
class StitchTest : public ::testing::Test {
 protected:
  StitchTest() {
    job_.parallel.tp = 2;
    job_.parallel.dp = 2;
    job_.parallel.pp = 4;
  }

  [[nodiscard]] RankGrid Grid() const { return RankGrid::Of(job_); }

  // Group along the named axes.
  [[nodiscard]] std::vector<Rank> Group(Rank rank, const std::set<std::string>& axes) const {
    const RankGrid grid = Grid();
    graph::GridGroup group;
    for (const graph::GridAxis& axis : grid.axes()) {
      std::vector<int32_t>& list = group.coordinates.emplace_back();
      for (int32_t i = 0; axes.contains(axis.name) && i < axis.size; ++i) {
        list.push_back(i);
      }
    }
    return grid.MembersOf(rank, group);
  }

  [[nodiscard]] std::vector<size_t> Axes(const std::set<std::string>& names) const {
    const RankGrid grid = Grid();
    std::vector<size_t> axes;
    for (size_t axis = 0; axis < grid.axes().size(); ++axis) {
      if (names.contains(grid.axes()[axis].name)) {
        axes.push_back(axis);
      }
    }
    return axes;
  }

  // What the program of that rank would record, slots in order of first use.
  [[nodiscard]] Fragment Record(uint32_t number, int extra_kernels = 0) const {
    const Rank rank(number);
    const int32_t stage = Grid().ParallelRankOf(rank).pp;
    ProgramBuilder builder(rank, 1);
    builder.MarkerBegin("iteration");
    const uint16_t tp = builder.CommSlot("tp", Group(rank, {"tp"}));
    const uint16_t pp = builder.CommSlot("pp", Group(rank, {"pp"}));
    if (stage > 0) {
      builder.PeerGroup(0, {{{false, pp, builder.PeerSlot(Rank(number - 4)), 32}}});
    }
    builder.Kernel(0, "stage" + std::to_string(stage), 1000);
    for (int i = 0; i < extra_kernels; ++i) {
      builder.Kernel(0, "surprise", 5);
    }
    builder.Collective(0, tp, kSum);
    if (stage < 3) {
      builder.PeerGroup(0, {{{true, pp, builder.PeerSlot(Rank(number + 4)), 32}}});
    }
    if (stage == 0 || stage == 3) {
      const uint32_t first = number % 4;
      builder.Collective(0, builder.CommSlot("", {Rank(first), Rank(first + 12)}), kSum);
    }
    builder.Collective(0, builder.CommSlot("", Group(rank, {"dp"})), kSum);
    builder.Collective(0, builder.CommSlot("grads", Group(rank, {"dp"})), kSum);
    builder.Collective(0, builder.CommSlot("", Group(rank, {"tp", "dp", "pp"})), kSum);
    builder.MarkerEnd("iteration");
    Fragment fragment = builder.Finish();
    fragment.memory.peak_allocated = 1000 + stage;
    return fragment;
  }

  [[nodiscard]] StitchInput Input(const std::vector<uint32_t>& ranks) const {
    StitchInput input;
    input.job = job_;
    input.plan = *MakePlan(job_, {.spot_checks = 0});
    for (const uint32_t rank : ranks) {
      input.fragments.push_back(Record(rank));
    }
    return input;
  }

  graph::JobSpec job_;
};

TEST_F(StitchTest, representatives_give_a_valid_graph_of_all_ranks) {
  const Result<Graph> graph = Stitch(Input({0, 4, 8, 12}));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const graph::Validation validation = graph::Validate(*graph);
  EXPECT_TRUE(validation.ok()) << validation.faults.front().message;
  EXPECT_EQ(graph->roles.size(), 4U);
  // tp: 8, pp: 4, embedding: 4, dp: 8 twice (unnamed and "grads"), world: 1.
  EXPECT_EQ(graph->communicators.size(), 8U + 4U + 4U + 8U + 8U + 1U);
  std::map<std::string, int> names;
  for (const uint32_t name : graph->communicators.name) {
    ++names[graph->strings[name]];
  }
  EXPECT_EQ(names,
            (std::map<std::string, int>{
                {"tp", 8}, {"pp", 4}, {"embedding", 4}, {"dp", 8}, {"grads", 8}, {"world", 1}}));
  EXPECT_EQ(graph->ranks.peers(Rank(7))[0], 3U);
  EXPECT_EQ(graph->ranks.peers(Rank(7))[1], 11U);
}

TEST_F(StitchTest, the_order_of_fragments_does_not_matter) {
  const Result<Graph> a = Stitch(Input({0, 4, 8, 12, 7}));
  const Result<Graph> b = Stitch(Input({12, 7, 8, 0, 4}));
  EXPECT_EQ(graph::EncodeGraph(*a), graph::EncodeGraph(*b));
}

TEST_F(StitchTest, the_graph_of_all_ranks_equals_that_of_representatives) {
  std::vector<uint32_t> all(16);
  for (uint32_t rank = 0; rank < 16; ++rank) {
    all[rank] = rank;
  }
  const Result<Graph> truth = Stitch(Input(all));
  const Result<Graph> slice = Stitch(Input({0, 4, 8, 12}));
  ASSERT_TRUE(truth.ok() && slice.ok());
  EXPECT_TRUE(graph::DiffGraphs(*truth, *slice).empty());
  EXPECT_TRUE(truth->warnings.empty());
  EXPECT_EQ(truth->ranks.source[5], graph::RankSource::kRecorded);
  EXPECT_EQ(slice->ranks.source[5], graph::RankSource::kRole);
}

// Stage 2 sums its gradients over pairs that are not a data-parallel group: the job still runs.
TEST_F(StitchTest, a_group_of_one_stage_alone_is_told) {
  const graph::CollectiveShape gradients = {graph::CollectiveKind::kAllReduce, DataType::kFloat32,
                                            graph::ReduceOp::kSum, -1, 4096};
  StitchInput input = Input({});
  for (const uint32_t number : {0U, 4U, 8U, 12U}) {
    const Rank rank(number);
    ProgramBuilder builder(rank, 1);
    const char* axis = number == 8 ? "tp" : "dp";
    builder.Collective(0, builder.CommSlot("", Group(rank, {axis})), gradients);
    input.fragments.push_back(builder.Finish());
  }
  const Result<Graph> graph = Stitch(std::move(input));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_EQ(graph->warnings.size(), 1U);
  EXPECT_EQ(graph->warnings[0].code, "odd_group");
  EXPECT_EQ(graph->warnings[0].example,
            "1 × all_reduce, 4 KiB in all: stage 2 (rank 8) over the 2 ranks 8 to 9, but "
            "stage 0 (rank 0) over the 2 ranks 0 to 2");
}

// Stage 0 sums its gradients over both, stage 2 over one, the others over the other.
TEST_F(StitchTest, a_group_that_the_usual_role_uses_too_is_not_odd) {
  const graph::CollectiveShape gradients = {graph::CollectiveKind::kAllReduce, DataType::kFloat32,
                                            graph::ReduceOp::kSum, -1, 4096};
  StitchInput input = Input({});
  for (const uint32_t number : {0U, 4U, 8U, 12U}) {
    const Rank rank(number);
    ProgramBuilder builder(rank, 1);
    if (number != 8) {
      builder.Collective(0, builder.CommSlot("", Group(rank, {"dp"})), gradients);
    }
    if (number == 0 || number == 8) {
      builder.Collective(0, builder.CommSlot("", Group(rank, {"tp"})), gradients);
    }
    input.fragments.push_back(builder.Finish());
  }
  const Result<Graph> graph = Stitch(std::move(input));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_TRUE(graph->warnings.empty());
}

TEST_F(StitchTest, values_by_policy_are_assumptions_not_warnings) {
  StitchInput input = Input({0, 4, 8, 12});
  input.fragments[0].warnings.push_back({"virtual_recv", 3, "rank 0"});
  input.fragments[1].warnings.push_back({"virtual_recv", 4, "rank 4"});
  const Result<Graph> graph = Stitch(std::move(input));
  ASSERT_TRUE(graph.ok());
  EXPECT_TRUE(graph->warnings.empty());
  EXPECT_THAT(graph->assumptions.back(), HasSubstr("7 receives from virtual ranks gave"));
}

// Whether a user's program acts on what it read is not known.
TEST_F(StitchTest, what_the_built_in_workload_reads_to_print_is_no_warning) {
  for (const bool user_program : {false, true}) {
    StitchInput input = Input({0, 4, 8, 12});
    input.job.user_program = user_program;
    input.fragments[0].warnings.push_back({"unwritten_device_bytes_read", 18, "rank 0"});
    const Result<Graph> graph = Stitch(std::move(input));
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(graph->warnings.size(), user_program ? 1U : 0U);
    const auto told = Contains(HasSubstr("18 times the workload read"));
    if (user_program) {
      EXPECT_THAT(graph->assumptions, Not(told));
    } else {
      EXPECT_THAT(graph->assumptions, told);
    }
  }
}

TEST_F(StitchTest, what_one_rank_does_anew_becomes_the_role) {
  const Result<Graph> graph = Stitch(Input({0, 4, 8, 12}));
  ASSERT_TRUE(graph.ok());
  const Result<Graph> adopted = AdoptFragment(*graph, Record(5, 1));
  ASSERT_TRUE(adopted.ok()) << adopted.status().message();
  for (uint32_t rank = 0; rank < 16; ++rank) {
    const bool same_role = graph->ranks.role[rank] == graph->ranks.role[5];
    EXPECT_EQ(adopted->role_of(Rank(rank)).program.size(),
              graph->role_of(Rank(rank)).program.size() + (same_role ? 1 : 0))
        << rank;
  }
  EXPECT_EQ(adopted->communicators.members, graph->communicators.members);
  EXPECT_THAT(adopted->assumptions.back(), HasSubstr("rank 5 did instead of the graph"));
}

// Only the adopted rank says what it called before its first iteration.
TEST_F(StitchTest, an_adopted_rank_brings_no_warning_and_takes_none_away) {
  Result<Graph> graph = Stitch(Input({0, 4, 8, 12}));
  ASSERT_TRUE(graph.ok());
  graph->warnings.push_back({"role_split", 3, "rank 0"});
  Fragment fragment = Record(5, 1);
  fragment.early_groups.push_back({{Rank(5), Rank(12)}});
  fragment.early_calls.push_back({.iteration = -1, .count = 1});
  const Result<Graph> adopted = AdoptFragment(*graph, std::move(fragment));
  ASSERT_TRUE(adopted.ok()) << adopted.status().message();
  EXPECT_EQ(adopted->warnings, graph->warnings);
}

// Which of two groups a rank uses first does not identify it.
TEST_F(StitchTest, groups_of_the_same_members_are_told_apart) {
  job_.parallel = {.tp = 1, .dp = 2, .pp = 1};
  const auto record = [&](uint32_t rank, bool second_first) {
    ProgramBuilder builder(Rank(rank), 1);
    builder.MarkerBegin("iteration");
    builder.Collective(0, builder.CommSlot("used first", {Rank(0), Rank(1)}), kSum);
    builder.Collective(0, builder.CommSlot("used second", {Rank(0), Rank(1)}), kSum);
    builder.MarkerEnd("iteration");
    Fragment fragment = builder.Finish();
    for (uint32_t slot = 0; slot < 2; ++slot) {
      fragment.comm_slots[slot].name = "";
      fragment.comm_slots[slot].group_number = second_first ? 2 - slot : 1 + slot;
    }
    return fragment;
  };
  const auto stitched = [&](bool second_first) {
    StitchInput input = Input({});
    input.fragments = {record(0, false), record(1, second_first)};
    return Stitch(std::move(input));
  };
  const Result<Graph> same = stitched(false);
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_TRUE(graph::Validate(*same).ok());
  const Result<Graph> opposite = stitched(true);
  ASSERT_TRUE(opposite.ok()) << opposite.status().message();
  const auto report = graph::Validate(*opposite);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.faults.front().rule, "stall");
}

// By their names, if they have any: ranks may create them in any order.
TEST_F(StitchTest, groups_of_the_same_members_may_have_names) {
  job_.parallel = {.tp = 1, .dp = 2, .pp = 1};
  StitchInput input = Input({});
  for (const uint32_t rank : {0U, 1U}) {
    ProgramBuilder builder(Rank(rank), 1);
    builder.Collective(0, builder.CommSlot("a", {Rank(0), Rank(1)}), kSum);
    builder.Collective(0, builder.CommSlot("b", {Rank(0), Rank(1)}), kSum);
    input.fragments.push_back(builder.Finish());
    input.fragments.back().comm_slots[0].group_number = 1 + rank;
    input.fragments.back().comm_slots[1].group_number = 2 - rank;
  }
  const Result<Graph> graph = Stitch(std::move(input));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->roles.size(), 1U);
  EXPECT_EQ(graph->communicators.size(), 2U);
}

TEST_F(StitchTest, an_extra_op_splits_the_role_and_says_where) {
  StitchInput input = Input({0, 4, 8, 12});
  input.fragments.push_back(Record(5, 1));
  const Result<Graph> graph = Stitch(std::move(input));
  ASSERT_TRUE(graph.ok());
  ASSERT_EQ(graph->roles.size(), 5U);
  EXPECT_EQ(graph->roles[4].name, "stage 1 rank 5");
  EXPECT_EQ(graph->role_of(Rank(5)).name, "stage 1 rank 5");
  EXPECT_EQ(graph->role_of(Rank(7)).name, "stage 1");
  EXPECT_TRUE(graph::Validate(*graph).ok());
  ASSERT_EQ(graph->warnings.size(), 1U);
  EXPECT_EQ(graph->warnings[0].code, "role_split");
  EXPECT_THAT(graph->warnings[0].example,
              AllOf(HasSubstr("rank 5 departs from stage 1 (rank 4) at op 3"),
                    HasSubstr("kernel surprise"), HasSubstr("the role: all_reduce")));
}

TEST_F(StitchTest, a_rank_that_departs_from_all_others_is_named_by_its_number) {
  job_.parallel = {.tp = 1, .dp = 2, .pp = 1};
  StitchInput input = Input({});
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ProgramBuilder builder(Rank(rank), 1);
    for (uint32_t kernel = 0; kernel <= rank; ++kernel) {
      builder.Kernel(0, "kernel", 5);
    }
    builder.Collective(0, builder.CommSlot("dp", {Rank(0), Rank(1)}), kSum);
    input.fragments.push_back(builder.Finish());
  }
  const Result<Graph> graph = Stitch(std::move(input));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->role_of(Rank(1)).name, "rank 1");
}

TEST_F(StitchTest, ranks_that_depart_alike_share_the_new_role) {
  StitchInput input = Input({0, 4, 8, 12});
  input.fragments.push_back(Record(7, 2));
  input.fragments.push_back(Record(5, 2));
  const Result<Graph> graph = Stitch(std::move(input));
  EXPECT_EQ(graph->roles.size(), 5U);
  EXPECT_EQ(graph->roles[4].representative, Rank(5));
  EXPECT_EQ(graph->warnings[0].count, 2);
}

TEST_F(StitchTest, who_does_as_another_stage_founds_a_role_in_its_own) {
  StitchInput input = Input({0, 4, 8, 12, 10});
  Fragment& like_stage_1 = input.fragments.back();
  std::ranges::replace(like_stage_1.strings, "stage2", "stage1");
  like_stage_1.memory.peak_allocated = 1001;
  const Result<Graph> graph = Stitch(std::move(input));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->role_of(Rank(10)).name, "stage 2 rank 10");
}

// Rank 4 computes more than ranks 5, 6 and 7: the rank that was not recorded is like the latter.
TEST_F(StitchTest, what_the_representative_does_alone_is_its_own) {
  StitchInput input = Input({0, 8, 12, 5, 6});
  input.fragments.push_back(Record(4, 1));
  input.plan.approximated_axes = Axes({"tp", "dp"});
  const Result<Graph> graph = Stitch(std::move(input));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_TRUE(graph::Validate(*graph).ok());
  ASSERT_EQ(graph->roles.size(), 5U);
  EXPECT_EQ(graph->role_of(Rank(7)).representative, Rank(5));
  EXPECT_EQ(graph->role_of(Rank(7)).name, "stage 1");
  EXPECT_EQ(graph->ranks.source[7], graph::RankSource::kApproximated);
  EXPECT_EQ(graph->role_of(Rank(4)).name, "stage 1 rank 4");
  ASSERT_EQ(graph->warnings.size(), 1U);
  EXPECT_EQ(graph->warnings[0].code, "role_split");
  EXPECT_THAT(graph->warnings[0].example,
              HasSubstr("rank 4 departs from stage 1 (rank 5) at op 3"));
  EXPECT_THAT(graph->assumptions,
              testing::Contains(
                  HasSubstr("stage 1 is what 2 of 3 recorded ranks do, not what rank 4 does")));
}

// As many differ as do not: nobody is outvoted, and shards that all differ are not reported.
TEST_F(StitchTest, ranks_that_all_differ_leave_the_representative) {
  for (const uint32_t representative : {4U, 5U, 6U}) {
    StitchInput input = Input({0, 4, 8, 12});
    input.fragments.push_back(Record(5, 1));
    input.fragments.push_back(Record(6, 2));
    input.plan.roles[1].representative = Rank(representative);
    input.plan.approximated_axes = Axes({"tp", "dp"});
    const Result<Graph> graph = Stitch(std::move(input));
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(graph->role_of(Rank(7)).representative, Rank(representative));
    EXPECT_TRUE(graph->warnings.empty());
  }
}

// Ranks 5 and 6 outvote rank 4, but rank 7 differs too: they may all be shards.
TEST_F(StitchTest, who_is_outvoted_among_several_kinds_is_not_reported) {
  StitchInput input = Input({0, 8, 12, 5, 6});
  input.fragments.push_back(Record(4, 1));
  input.fragments.push_back(Record(7, 2));
  input.plan.approximated_axes = Axes({"tp", "dp"});
  const Result<Graph> graph = Stitch(std::move(input));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->role_of(Rank(5)).name, "stage 1");
  EXPECT_TRUE(graph->warnings.empty());
}

// A rank that communicates otherwise cannot stand in for one that was not recorded.
TEST_F(StitchTest, only_ranks_that_communicate_alike_outvote) {
  for (const bool other_root : {false, true}) {
    StitchInput input = Input({0, 4, 8, 12, 5, 6});
    graph::CollectiveShape& shape = input.fragments[1].program.collectives[0];
    (other_root ? shape.root = 0 : shape.bytes = 128);
    input.plan.approximated_axes = Axes({"tp", "dp"});
    const Result<Graph> graph = Stitch(std::move(input));
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(graph->role_of(Rank(7)).representative, Rank(4)) << other_root;
  }
}

TEST_F(StitchTest, the_longest_warm_up_counts) {
  StitchInput input = Input({0, 4, 8, 12});
  input.job.user_program = true;
  for (Fragment& fragment : input.fragments) {
    fragment.warmup_iterations = fragment.rank == Rank(4) ? 3 : 2;
  }
  const Result<Graph> graph = Stitch(std::move(input));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->job.facts.warmup_iterations, 3);
}

TEST_F(StitchTest, other_memory_splits_the_role) {
  StitchInput input = Input({0, 4, 8, 12, 6});
  input.fragments[4].memory.peak_allocated += 512;
  const Result<Graph> graph = Stitch(std::move(input));
  EXPECT_EQ(graph->roles.size(), 5U);
  EXPECT_THAT(graph->warnings[0].example, HasSubstr("peak allocated 1513 bytes"));
  input = Input({0, 4, 8, 12, 6});
  input.fragments[4].memory.outside.push_back({.name = "other allocations", .bytes = 512});
  EXPECT_EQ(Stitch(std::move(input))->roles.size(), 5U);
}

TEST_F(StitchTest, sandbox_ranks_win_over_recorded_ones) {
  StitchInput input = Input({0, 4, 8, 12});
  input.sandbox_ranks = {Rank(12), Rank(3), Rank(0)};
  const Result<Graph> graph = Stitch(std::move(input));
  EXPECT_EQ(graph->sandbox_ranks, (std::vector<Rank>{Rank(0), Rank(3), Rank(12)}));
  EXPECT_EQ(graph->ranks.source[0], graph::RankSource::kSandbox);
  EXPECT_EQ(graph->ranks.source[3], graph::RankSource::kSandbox);
  EXPECT_EQ(graph->ranks.source[4], graph::RankSource::kRecorded);
}

TEST_F(StitchTest, what_cannot_be_stitched_is_refused) {
  EXPECT_THAT(Stitch(Input({0, 4, 12})).status().message(), HasSubstr("rank 8, was not recorded"));
  EXPECT_THAT(Stitch(Input({0, 4, 8, 12, 4})).status().message(), HasSubstr("recorded twice"));
  StitchInput odd = Input({0, 4, 8, 12});
  odd.fragments[1].comm_slots[0].members = {Rank(0), Rank(3), Rank(4)};
  EXPECT_THAT(Stitch(std::move(odd)).status().message(), HasSubstr("{0, 3, 4}"));
  // Stage 1 with a group over dp 0 only does not fit the ranks with dp 1.
  StitchInput narrow = Input({0, 4, 8, 12});
  narrow.job.parallel.tp = 1;
  narrow.job.parallel.dp = 4;
  EXPECT_THAT(Stitch(std::move(narrow)).status().message(), HasSubstr("is in no group like"));
}

}  // namespace
}  // namespace prism::slicer
