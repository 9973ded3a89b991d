// Ranks side by side: threads, classes and gates change no number, over many holds per rank.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replayer/engine/engine.h"
#include "replayer/replay.h"
#include "slicer/workloads/workloads.h"
#include "tests/support/test_parameters.h"

namespace prism::replayer {
namespace {

constexpr uint32_t kRanks = 256;  // two replicas of the workload

graph::Graph MakeGraph(const char* workload) {
  Result<graph::Graph> graph = slicer::MakeWorkload(workload, kRanks);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  graph->cluster = prism::testing::TestCluster();
  return *std::move(graph);
}

ReplayOptions Perturbed(bool noise) {
  ReplayOptions options;
  options.iterations = 1;
  options.seed = 7;
  Perturbation straggler;
  straggler.ranks = {Rank(9), Rank(200)};
  straggler.factor = 1.3;
  options.perturbations.push_back(straggler);
  if (noise) {
    Perturbation jitter;
    jitter.kind = PerturbationKind::kJitter;
    jitter.factor = 0.05;
    options.perturbations.push_back(jitter);
  }
  return options;
}

// Every rank behind an open gate: evaluated separately, its activity counted at the end.
ReplayResult ReplayApart(const graph::Graph& graph, const ReplayOptions& options) {
  std::vector<Rank> all;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    all.emplace_back(rank);
  }
  Result<Engine> engine = Engine::Create(graph, options, all);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  for (Rank rank : all) {
    engine->Issue(rank, int64_t{options.iterations} * graph.role_of(rank).program.size());
  }
  EXPECT_TRUE(engine->Run());
  return engine->Summarise();
}

void ExpectSame(const ReplayResult& a, const ReplayResult& b) {
  EXPECT_EQ(a.iteration_ns, b.iteration_ns);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(a.ranks[rank].iteration_ns, b.ranks[rank].iteration_ns) << rank;
    EXPECT_EQ(a.ranks[rank].compute_ns, b.ranks[rank].compute_ns) << rank;
    EXPECT_EQ(a.ranks[rank].exposed_comm_ns, b.ranks[rank].exposed_comm_ns) << rank;
    EXPECT_EQ(a.ranks[rank].bubble_ns, b.ranks[rank].bubble_ns) << rank;
    EXPECT_EQ(a.ranks[rank].idle_ns, b.ranks[rank].idle_ns) << rank;
  }
  ASSERT_EQ(a.communicators.size(), b.communicators.size());
  for (size_t comm = 0; comm < a.communicators.size(); ++comm) {
    EXPECT_EQ(a.communicators[comm].transfer_ns, b.communicators[comm].transfer_ns) << comm;
    EXPECT_EQ(a.communicators[comm].wait_ns_max, b.communicators[comm].wait_ns_max) << comm;
  }
}

void ExpectSameForAll(const graph::Graph& graph) {
  for (const bool noise : {false, true}) {
    ReplayOptions options = Perturbed(noise);
    const ReplayResult apart = ReplayApart(graph, options);
    const Result<ReplayResult> classes = Replay(graph, options);
    ASSERT_TRUE(classes.ok());
    ExpectSame(apart, *classes);
    options.classes = false;
    for (const int32_t threads : {1, 3}) {
      options.threads = threads;
      const Result<ReplayResult> lanes = Replay(graph, options);
      ASSERT_TRUE(lanes.ok());
      EXPECT_EQ(lanes->classes, kRanks);
      ExpectSame(apart, *lanes);
    }
  }
}

TEST(Lanes, threads_and_classes_change_no_number) {
  ExpectSameForAll(MakeGraph("gpt3-layer"));
}

// Here a class meets itself, so its activity is counted while it advances.
TEST(Lanes, messages_within_a_class_change_no_number) {
  ExpectSameForAll(MakeGraph("llm"));
  ExpectSameForAll(MakeGraph("stencil"));
}

}  // namespace
}  // namespace prism::replayer
