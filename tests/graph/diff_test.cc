#include "graph/diff/diff.h"

#include <gtest/gtest.h>

#include "graph/diff/program_diff.h"
#include "tests/support/changed_jobs.h"
#include "tests/support/planted_graph.h"

namespace prism::graph {
namespace {

using testing::PlantedGraph;

PlantedGraph Base() {
  PlantedGraph planted(2);
  planted.Communicator("dp", {0, 1});
  for (uint32_t role = 0; role < 2; ++role) {
    planted.Kernel(role).Collective(role, 0, 64).Kernel(role);
  }
  return planted;
}

TEST(Diff, equal_graphs_with_other_numbering_have_no_difference) {
  const Graph left = Base().Build();
  Graph right = Base().Build();
  right.strings.insert(right.strings.begin() + 1, "unused");
  for (uint32_t& name : right.communicators.name) {
    ++name;
  }
  EXPECT_TRUE(DiffGraphs(left, right).empty());
}

TEST(Diff, ops_are_counted_and_the_first_is_shown) {
  const Graph left = Base().Build();
  Graph right = Base().Collective(0, 0, 32).Build();
  right.roles[0].program.collectives[0].bytes = 65;
  const auto view = [](const Graph& graph) {
    return ProgramView{&graph.roles[0].program, &graph.strings, &graph.signatures};
  };
  const ProgramDifference difference = CompareOps(view(left), view(right));
  EXPECT_EQ(difference.first, 1);
  EXPECT_EQ(difference.changed, 1);
  EXPECT_EQ(difference.added, 1);
  EXPECT_EQ(difference.removed, 0);
  EXPECT_EQ(difference.left,
            "all_reduce (sum) of 64 bytes float32 on communicator slot 0 on stream 0");
}

TEST(Diff, differences_come_ranked_by_kind) {
  const Graph left = Base().Build();
  Graph right = Base().Kernel(1).Build();
  right.job.seq_len = 4096;
  right.roles[0].memory.peak_allocated = 7;
  right.communicators.name[0] = 1;
  const std::vector<Difference> differences = DiffGraphs(left, right);
  ASSERT_EQ(differences.size(), 5U);
  EXPECT_EQ(differences[0].where, "job.seq_len");
  EXPECT_EQ(differences[1].kind, DifferenceKind::kProgram);
  EXPECT_EQ(differences[1].left, "no further op");
  EXPECT_EQ(differences[2].kind, DifferenceKind::kCommunicator);
  EXPECT_EQ(differences[3].kind, DifferenceKind::kMemory);
  EXPECT_EQ(differences[4].kind, DifferenceKind::kRankTable);
  EXPECT_EQ(differences[4].count, 2);
}

TEST(Diff, clusters_are_compared_by_value) {
  const Graph left = Base().Build();
  Graph right = left;
  right.cluster.gpus_per_node = left.cluster.gpus_per_node + 1;
  right.cluster.network.torus = {4, 4, 2};
  right.cluster.parameters = ParameterTable({{"net.hop_ns", 7, "ns", "", Mark::kAssumed}});
  right.cluster.source = "elsewhere";
  const std::vector<Difference> differences = DiffGraphs(left, right);
  ASSERT_EQ(differences.size(), 3U);
  EXPECT_EQ(differences[0].where, "gpus_per_node");
  EXPECT_EQ(differences[1].right, "4x4x2");
  EXPECT_EQ(differences[2].where, "net.hop_ns");
  EXPECT_EQ(differences[2].left, "");
  EXPECT_EQ(differences[2].right, "7 ns");
}

TEST(Diff, choices_are_shown_by_their_names) {
  const Graph left = Base().Build();
  Graph right = left;
  right.job.recompute = Recompute::kFull;
  right.job.model.block = BlockKind::kNemotron;
  right.cluster.network.kind = FabricKind::kTorus;
  right.cluster.network.routing = FabricRouting::kDimensionOrder;
  std::vector<std::string> texts;
  for (const Difference& difference : DiffGraphs(left, right)) {
    texts.push_back(difference.where + ": " + difference.left + ", " + difference.right);
  }
  EXPECT_EQ(texts,
            (std::vector<std::string>{"job.block: gpt, nemotron", "job.recompute: none, full",
                                      "network.kind: rail-fat-tree, torus",
                                      "network.routing: adaptive, dimension-order"}));
}

TEST(Diff, a_role_on_one_side_only_is_told_with_its_ranks) {
  const Graph left = Base().Build();
  Graph right = Base().Build();
  right.roles[1].name = "other";
  const std::vector<Difference> differences = DiffGraphs(left, right);
  ASSERT_GE(differences.size(), 2U);
  EXPECT_EQ(differences[0].left, "1 ranks");
  EXPECT_EQ(differences[0].right, "");
}

TEST(Diff, every_field_of_a_job_is_compared) {
  Graph left = Base().Build();
  left.job = {};
  Graph right = left;
  for (const testing::ChangedJob& changed : testing::ChangedJobs()) {
    right.job = changed.job;
    const std::vector<Difference> differences = DiffGraphs(left, right);
    ASSERT_EQ(differences.size(), 1U) << changed.field;
    EXPECT_EQ(differences[0].where, "job." + changed.field);
  }
  right.job = left.job;
  right.job.facts.axes = {{"dp", 2}};
  ASSERT_EQ(DiffGraphs(left, right).size(), 1U);
  EXPECT_EQ(DiffGraphs(left, right)[0].right, "dp 2");
}

}  // namespace
}  // namespace prism::graph
