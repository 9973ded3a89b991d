#include "launch/plan/replay_range.h"

#include <gtest/gtest.h>

#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/perturb/perturbation.h"
#include "replayer/replay.h"
#include "tests/support/tiny_graph.h"

namespace prism::launch {
namespace {

using prism::testing::Kernel;
using prism::testing::TinyGraph;

graph::Graph OneKernel() {
  graph::Graph graph = TinyGraph({{Kernel(0, 100'000)}});
  graph.cluster.parameters.SetValue("spread.compute", 0.1);
  graph.cluster.parameters.SetValue("spread.comm", 0.1);
  return graph;
}

ReplayRange RangeOf(const graph::Graph& graph, const replayer::ReplayOptions& options) {
  const Result<replayer::ReplayResult> result = replayer::Replay(graph, options);
  PRISM_CHECK(result.ok());
  const auto range = RangeBySpread(graph, options, result->steady_iteration_ns());
  PRISM_CHECK(range.ok());
  return *range;
}

TEST(ReplayRange, is_from_the_fast_to_the_slow_end) {
  const ReplayRange range = RangeOf(OneKernel(), {});
  EXPECT_EQ(range.low_ns, 90'000);
  EXPECT_EQ(range.high_ns, 110'000);
}

// The device is taken away from 195 to 245 us. That falls into the second of three iterations as
// computed and at the slow end, and into the third at the fast end.
TEST(ReplayRange, its_low_end_is_below_the_high_one_whatever_falls_into_an_iteration) {
  replayer::ReplayOptions options;
  options.perturbations.push_back({.kind = replayer::PerturbationKind::kPeriodic,
                                   .ranks = {Rank(0)},
                                   .period_ns = 195'000,
                                   .duration_ns = 50'000});
  const ReplayRange range = RangeOf(OneKernel(), options);
  EXPECT_EQ(range.low_ns, 100'000);
  EXPECT_EQ(range.high_ns, 140'000);
}

}  // namespace
}  // namespace prism::launch
