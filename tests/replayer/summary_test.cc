#include "replayer/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace prism::replayer
