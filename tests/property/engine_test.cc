// The engine against the simple evaluator, op by op, on random graphs.
#include "replayer/engine/engine.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "replayer/replay.h"
#include "tests/support/random_perturbations.h"
#include "tests/support/simple_evaluator.h"
#include "tests/support/simple_iteration.h"

namespace prism::replayer {
namespace {

using prism::testing::LastIteration;
using prism::testing::RandomPerturbations;
using prism::testing::ReplayableGraph;

std::vector<Rank> AllRanks(const graph::Graph& graph) {
  std::vector<Rank> ranks;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    ranks.emplace_back(rank);
  }
  return ranks;
}

void ExpectSame(const graph::Graph& graph, const Timeline& engine, const Timeline& simple) {
  const graph::Program& program = graph.role_of(engine.rank).program;
  for (size_t i = 0; i < engine.end.size(); ++i) {
    auto where = [&] {
      return ::testing::Message() << "rank " << engine.rank.value() << " op " << i % program.size()
                                  << " iteration " << i / program.size() << " kind "
                                  << static_cast<int>(program.kind[i % program.size()]);
    };
    ASSERT_EQ(engine.issue[i], simple.issue[i]) << "issue " << where();
    ASSERT_EQ(engine.start[i], simple.start[i]) << "start " << where();
    ASSERT_EQ(engine.transfer_start[i], simple.transfer_start[i]) << "transfer " << where();
    ASSERT_EQ(engine.end[i], simple.end[i]) << "end " << where();
  }
}

TEST(EngineProperty, agrees_with_the_simple_evaluator_for_every_op) {
  for (uint64_t seed = 0; seed < 3000 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    graph::Graph graph = ReplayableGraph(seed);
    ReplayOptions options = RandomPerturbations(graph, seed);
    options.traced = AllRanks(graph);
    ReplayOptions longer = options;
    ++longer.iterations;
    const prism::testing::SimpleResult simple = prism::testing::EvaluateSimply(graph, longer);
    ASSERT_TRUE(simple.finished);
    for (const bool classes : {true, false}) {
      options.classes = classes;
      Result<ReplayResult> engine = Replay(graph, options);
      ASSERT_TRUE(engine.ok()) << engine.status().message();
      for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
        ExpectSame(graph, engine->timelines[rank], simple.timelines[rank]);
        const DurationNs last = LastIteration(graph, simple.timelines[rank], options.iterations);
        if (last >= 0) {
          ASSERT_EQ(engine->ranks[rank].iteration_ns, last) << "rank " << rank;
        }
      }
    }
  }
}

// The length of an iteration does not depend on how many follow.
TEST(EngineProperty, a_longer_run_begins_with_the_shorter_one) {
  for (uint64_t seed = 0; seed < 3000 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const graph::Graph graph = ReplayableGraph(seed);
    ReplayOptions options = RandomPerturbations(graph, seed);
    const Result<ReplayResult> shorter = Replay(graph, options);
    ++options.iterations;
    const Result<ReplayResult> longer = Replay(graph, options);
    ASSERT_TRUE(shorter.ok() && longer.ok());
    for (size_t i = 0; i < shorter->iteration_ns.size(); ++i) {
      ASSERT_EQ(shorter->iteration_ns[i], longer->iteration_ns[i]) << "iteration " << i;
    }
  }
}

// One rank or two die at the start of some iteration.
void AddKills(const graph::Graph& graph, uint64_t seed, ReplayOptions* options) {
  Perturbation kill;
  kill.kind = PerturbationKind::kKill;
  Rng rng(seed, "kills");
  for (int64_t kills = rng.UniformInt(1, 2); kills > 0; --kills) {
    kill.ranks = {Rank(static_cast<uint32_t>(rng.UniformInt(0, graph.ranks.size() - 1)))};
    kill.iteration = static_cast<int32_t>(rng.UniformInt(0, options->iterations - 1));
    options->perturbations.push_back(kill);
  }
}

// All ops that end despite the kills end at the same times there, and no others end.
TEST(EngineProperty, kills_leave_undone_what_the_simple_evaluator_leaves_undone) {
  int64_t stalled = 0;
  int64_t finished = 0;
  for (uint64_t seed = 0; seed < 1000 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const graph::Graph graph = ReplayableGraph(seed);
    ReplayOptions options = RandomPerturbations(graph, seed);
    AddKills(graph, seed, &options);
    const prism::testing::SimpleResult simple = prism::testing::EvaluateSimply(graph, options);
    Result<Engine> engine = Engine::Create(graph, options, AllRanks(graph));
    ASSERT_TRUE(engine.ok());
    for (Rank rank : AllRanks(graph)) {
      engine->Issue(rank, int64_t{options.iterations} * graph.role_of(rank).program.size());
    }
    ASSERT_EQ(engine->Run(), simple.finished);
    for (Rank rank : AllRanks(graph)) {
      const std::vector<TimeNs>& ends = simple.timelines[rank.value()].end;
      for (size_t i = 0; i < ends.size(); ++i) {
        ASSERT_EQ(engine->EndTime(rank, static_cast<OpPosition>(i)).value_or(-1), ends[i])
            << "rank " << rank.value() << " op " << i;
        (ends[i] < 0 ? stalled : finished) += 1;
      }
    }
    for (const bool classes : {true, false}) {
      options.classes = classes;
      EXPECT_EQ(Replay(graph, options).ok(), simple.finished);
    }
  }
  EXPECT_GT(stalled, 0);
  EXPECT_GT(finished, 0);
}

// Splitting every rank into a separate class (by gates that are wide open) changes nothing.
TEST(EngineProperty, classes_change_nothing) {
  for (uint64_t seed = 0; seed < 300 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    graph::Graph graph = ReplayableGraph(seed);
    ReplayOptions options = RandomPerturbations(graph, seed);
    Result<ReplayResult> merged = Replay(graph, options);
    ASSERT_TRUE(merged.ok()) << merged.status().message();
    Result<Engine> apart = Engine::Create(graph, options, AllRanks(graph));
    ASSERT_TRUE(apart.ok());
    for (Rank rank : AllRanks(graph)) {
      apart->Issue(rank, int64_t{options.iterations} * graph.role_of(rank).program.size());
    }
    ASSERT_TRUE(apart->Run());
    ReplayResult split = apart->Summarise();
    EXPECT_EQ(split.classes, graph.ranks.size());
    ASSERT_EQ(split.iteration_ns, merged->iteration_ns);
    for (size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      EXPECT_EQ(split.ranks[rank].compute_ns, merged->ranks[rank].compute_ns);
      EXPECT_EQ(split.ranks[rank].exposed_comm_ns, merged->ranks[rank].exposed_comm_ns);
      EXPECT_EQ(split.ranks[rank].bubble_ns, merged->ranks[rank].bubble_ns);
      EXPECT_EQ(split.ranks[rank].idle_ns, merged->ranks[rank].idle_ns);
    }
    for (size_t comm = 0; comm < graph.communicators.size(); ++comm) {
      EXPECT_EQ(split.communicators[comm].transfer_ns, merged->communicators[comm].transfer_ns);
      EXPECT_EQ(split.communicators[comm].wait_ns_max, merged->communicators[comm].wait_ns_max);
    }
  }
}

// Runs of kernels evaluated as one give the same result as kernel by kernel.
TEST(EngineProperty, folding_changes_nothing) {
  int64_t folded = 0;
  for (uint64_t seed = 0; seed < 1000 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const graph::Graph graph = ReplayableGraph(seed);
    ReplayOptions options = RandomPerturbations(graph, seed);
    options.classes = seed % 2 == 0;
    options.fold = true;
    const Result<ReplayResult> with = Replay(graph, options);
    options.fold = false;
    const Result<ReplayResult> without = Replay(graph, options);
    ASSERT_TRUE(with.ok() && without.ok());
    EXPECT_EQ(with->ranks, without->ranks);
    EXPECT_EQ(with->communicators, without->communicators);
    EXPECT_EQ(with->iteration_ns, without->iteration_ns);
    EXPECT_EQ(with->waits_ns, without->waits_ns);
    EXPECT_EQ(with->rank_ops + with->folded_ops, without->rank_ops);
    EXPECT_EQ(without->folded_ops, 0);
    folded += with->folded_ops;
  }
  EXPECT_GT(folded, 0);
}

TEST(EngineProperty, breakdown_sums_to_the_iteration) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    graph::Graph graph = ReplayableGraph(seed);
    Result<ReplayResult> result = Replay(graph, RandomPerturbations(graph, seed));
    ASSERT_TRUE(result.ok());
    for (const RankTimes& times : result->ranks) {
      EXPECT_EQ(times.compute_ns + times.exposed_comm_ns + times.bubble_ns + times.idle_ns,
                times.iteration_ns)
          << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace prism::replayer
