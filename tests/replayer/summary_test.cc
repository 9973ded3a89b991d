#include "replayer/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/report/json.h"
#include "replayer/report/text.h"
#include "tests/support/tiny_graph.h"

namespace prism::replayer {
namespace {

using prism::testing::Kernel;
using prism::testing::TinyGraph;
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

// A program whose every third step does more: the iteration is the three.
TEST(Summary, says_of_how_many_steps_an_iteration_is) {
  graph::Graph graph = TinyGraph({{Kernel(0, 3'000'000)}});
  graph.job.user_program = true;
  EXPECT_THAT(SummaryJson(SummaryOf(graph)), HasSubstr("\"steps_per_iteration\": null"));
  graph.job.facts.iteration_begin = "an optimizer step";
  EXPECT_THAT(SummaryJson(SummaryOf(graph)), HasSubstr("\"steps_per_iteration\": 1"));
  EXPECT_THAT(SummaryText(SummaryOf(graph), {}), Not(HasSubstr("steps")));
  graph.job.facts.steps_per_iteration = 3;
  EXPECT_THAT(SummaryJson(SummaryOf(graph)), HasSubstr("\"steps_per_iteration\": 3"));
  EXPECT_THAT(SummaryText(SummaryOf(graph), {}),
              HasSubstr("of 3 steps that take turns, 0.00100 s each on average"));
}

}  // namespace
}  // namespace prism::replayer
