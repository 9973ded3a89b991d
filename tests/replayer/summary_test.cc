#include "replayer/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/engine/replay_options.h"
#include "replayer/replay.h"
#include "replayer/report/json.h"
#include "replayer/report/text.h"
#include "tests/support/tiny_graph.h"

namespace prism::replayer {
namespace {

using prism::testing::Kernel;
using prism::testing::TinyGraph;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Summary SummaryOf(const graph::Graph& graph) {
  const Result<ReplayResult> result = Replay(graph, {});
  PRISM_CHECK(result.ok());
  SummaryInput input;
  input.graph = &graph;
  input.result = &*result;
  return Summarise(input);
}

// A program in which every third step does more: three steps are the iteration.
TEST(Summary, says_of_how_many_steps_an_iteration_is) {
  graph::Graph graph = TinyGraph({{Kernel(0, 3'000'000)}});
  graph.job.user_program = true;
  EXPECT_THAT(SummaryJson(SummaryOf(graph)), HasSubstr("\"steps_per_iteration\": null"));
  graph.job.facts.iteration_begin = "an optimizer step";
  EXPECT_THAT(SummaryJson(SummaryOf(graph)), HasSubstr("\"steps_per_iteration\": 1"));
  EXPECT_THAT(SummaryText(SummaryOf(graph), {}), Not(HasSubstr("steps")));
  EXPECT_THAT(
      SummaryText(SummaryOf(graph), {.output_folder = "out", .trace_bytes = 2048, .wall = ""}),
      HasSubstr("  trace             out/trace.pftrace, 2 KiB; open it in ui."));
  graph.job.facts.steps_per_iteration = 3;
  EXPECT_THAT(SummaryJson(SummaryOf(graph)), HasSubstr("\"steps_per_iteration\": 3"));
  EXPECT_THAT(SummaryText(SummaryOf(graph), {}),
              HasSubstr("of 3 steps that take turns, 0.00100 s each on average"));
}

// The global batch is that of one step.
TEST(Summary, counts_the_tokens_of_every_step_of_an_iteration) {
  graph::Graph graph = TinyGraph({{Kernel(0, 3'000'000)}});
  graph.job.user_program = true;
  graph.job.global_batch_size = 30;
  graph.job.seq_len = 10;
  const Summary of_one = SummaryOf(graph);
  EXPECT_DOUBLE_EQ(*of_one.tokens_per_s, 300 / of_one.iteration_time_s);
  graph.job.facts.steps_per_iteration = 3;
  const Summary of_three = SummaryOf(graph);
  EXPECT_DOUBLE_EQ(*of_three.tokens_per_s, 3 * *of_one.tokens_per_s);
  EXPECT_THAT(of_three.assumptions, Contains(HasSubstr("each of the 3 optimizer steps")));
}

// A rank in the middle with twice the work.
TEST(Summary, names_a_lone_slow_rank) {
  const auto compute = [](DurationNs duration) {
    return std::vector<prism::testing::TinyOp>{Kernel(0, duration),
                                               prism::testing::Collective(0, 0, 1'000'000)};
  };
  const DurationNs usual = 16'900'000;
  graph::Graph graph =
      TinyGraph({compute(usual), compute(usual), compute(2 * usual), compute(usual)});
  const Summary summary = SummaryOf(graph);
  ASSERT_EQ(summary.imbalance.size(), 1U);
  EXPECT_NEAR(summary.imbalance[0].ratio, 1.6, 1e-9);
  EXPECT_THAT(SummaryText(summary, {}), HasSubstr(": rank 2 computes 33.8 ms, the mean "));
  EXPECT_THAT(SummaryText(summary, {}), HasSubstr("; a straggler, the others are alike"));
  EXPECT_THAT(SummaryJson(summary), HasSubstr("\"straggler\": true"));
  EXPECT_THAT(SummaryText(SummaryOf(TinyGraph({compute(usual), compute(usual)})), {}),
              Not(HasSubstr("imbalance")));
}

TEST(Summary, counts_ranks_that_are_only_assumed_to_be_like_another) {
  graph::Graph graph = TinyGraph({{Kernel(0, 3'000'000)}, {Kernel(0, 3'000'000)}});
  graph.ranks.source = {graph::RankSource::kRecorded, graph::RankSource::kRole};
  EXPECT_EQ(SummaryOf(graph).assumed_ranks, 0);
  graph.job.user_program = true;
  EXPECT_THAT(SummaryText(SummaryOf(graph), {}), HasSubstr("assumed alike     1 of "));
}

// 30 s before every fifth iteration: 6 s in the mean, however many are replayed.
TEST(Summary, takes_the_mean_over_the_period_of_a_perturbation) {
  const std::vector<prism::testing::TinyOp> step = {
      Kernel(0, 22'800'000), prism::testing::Collective(0, 0, 1'000), prism::testing::Sync()};
  const graph::Graph graph = TinyGraph({step, step});
  for (const int32_t iterations : {5, 12}) {
    ReplayOptions options;
    options.iterations = iterations;
    Perturbation pause;
    pause.kind = PerturbationKind::kPeriodic;
    pause.ranks = {Rank(0)};
    pause.period_iterations = 5;
    pause.duration_ns = 30 * kNsPerSecond;
    options.perturbations = {pause};
    const Result<ReplayResult> result = Replay(graph, options);
    SummaryInput input;
    input.graph = &graph;
    input.result = &*result;
    EXPECT_NEAR(Summarise(input).iteration_time_s, 6.0228, 1e-4) << iterations;
    EXPECT_THAT(Summarise(input).assumptions, Contains(HasSubstr("mean over the 5 iterations")));
  }
}

}  // namespace
}  // namespace prism::replayer
