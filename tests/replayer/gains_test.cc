// Gains of jobs whose iteration can be computed by hand.
#include "replayer/gains.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/perturb/perturbation.h"
#include "replayer/replay.h"
#include "tests/support/test_parameters.h"
#include "tests/support/tiny_graph.h"

namespace prism::replayer {
namespace {

using prism::testing::Collective;
using prism::testing::Gap;
using prism::testing::Kernel;
using prism::testing::Sync;
using prism::testing::TinyGraph;

// Two ranks, 100 and 40 ns of compute, a collective of 30 ns, then 7 ns of sleep.
TEST(Gains, add_up_to_what_the_iteration_consists_of) {
  const graph::Graph graph = TinyGraph({{Kernel(0, 100), Collective(0, 0, 30), Sync(), Gap(7)},
                                        {Kernel(0, 40), Collective(0, 0, 30), Sync(), Gap(7)}});
  ReplayOptions options;
  options.perturbations.push_back({PerturbationKind::kStraggler, {Rank(0)}, 2});
  const Result<ReplayResult> whole = Replay(graph, options);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  ASSERT_EQ(whole->steady_iteration_ns(), 237);
  const Result<GainReport> gains = FindGains(graph, options);
  ASSERT_TRUE(gains.ok()) << gains.status().message();
  EXPECT_EQ(gains->iteration_ns, 237);
  std::map<std::string, DurationNs> without;
  for (const Gain& gain : gains->gains) {
    without[gain.what] = gain.iteration_ns;
  }
  EXPECT_EQ(gains->gains.front().what, "compute");
  EXPECT_EQ(without["compute"], 37);
  EXPECT_EQ(without["communication"], 207);
  EXPECT_EQ(without["communication: " + graph.string(StringId(graph.communicators.name[0]))], 207);
  EXPECT_EQ(without["host"], 230);
  EXPECT_EQ(without["perturbation 1"], 137);
}

}  // namespace
}  // namespace prism::replayer
