#include "launch/emulate/clock/host_clock.h"

#include <vector>

#include <gtest/gtest.h>

#include "replayer/engine/engine.h"
#include "tests/support/tiny_graph.h"

namespace prism::launch {
namespace {

// The host pauses before every second iteration, and takes twice as long for everything else.
TEST(HostClock, shows_the_time_of_the_engine_at_every_op) {
  graph::Graph graph =
      testing::TinyGraph({{testing::Kernel(0, 100), testing::Gap(30), testing::Record(0)}});
  graph.cluster.parameters.SetValue("host.kernel_ns", 10);
  replayer::ReplayOptions options;
  options.iterations = 5;
  options.perturbations.push_back({.kind = replayer::PerturbationKind::kPeriodic,
                                   .ranks = {Rank(0)},
                                   .period_iterations = 2,
                                   .duration_ns = 1000});
  options.perturbations.push_back(
      {.kind = replayer::PerturbationKind::kHost, .ranks = {Rank(0)}, .factor = 2});
  Result<replayer::Engine> engine = replayer::Engine::Create(graph, options, {Rank(0)});
  ASSERT_TRUE(engine.ok());
  HostClock clock(graph, Rank(0), options.perturbations);
  clock.Set(0, 0);
  for (replayer::OpPosition position = 1; position < 15; ++position) {
    engine->Issue(Rank(0), position);
    engine->Run();
    EXPECT_EQ(clock.At(position), engine->HostTime(Rank(0))) << position;
  }
  EXPECT_GT(*clock.At(14), 2000);
}

}  // namespace
}  // namespace prism::launch
