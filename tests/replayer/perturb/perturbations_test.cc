// Perturbations with numbers in their comments; that the engine applies them everywhere is in
// tests/property/engine_test.cc.
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/ineffective_perturbations.h"
#include "replayer/perturb/interference.h"
#include "replayer/perturb/jitter.h"
#include "replayer/perturb/perturbation.h"
#include "replayer/replay.h"
#include "tests/support/test_parameters.h"
#include "tests/support/tiny_graph.h"

namespace prism::replayer {
namespace {

using prism::testing::Collective;
using prism::testing::Kernel;
using prism::testing::Sync;
using prism::testing::TinyGraph;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ReplayOptions With(const Perturbation& perturbation) {
  ReplayOptions options;
  options.iterations = 2;
  options.perturbations = {perturbation};
  options.traced = {Rank(0)};
  return options;
}

// The device is stopped during [100, 130), [200, 230), ...; not before.
TEST(Interference, stretches_what_runs_into_it) {
  const std::vector<Interference> one = {{100, 30}};
  EXPECT_EQ(Interrupted(one, 0, 100), 100);
  EXPECT_EQ(Interrupted(one, 0, 101), 131);
  EXPECT_EQ(Interrupted(one, 110, 5), 25);
  EXPECT_EQ(Interrupted(one, 110, 0), 0);
  EXPECT_EQ(Interrupted(one, 130, 70), 70);
  EXPECT_EQ(Interrupted(one, 130, 71), 101);
  EXPECT_EQ(Interrupted(one, 150, 190), 250);  // 50, then 70 of each of two periods
  const std::vector<Interference> two = {{100, 30}, {250, 60}};
  EXPECT_EQ(Interrupted(two, 220, 21), 111);  // 230 to 250 and, after both, from 330
  const std::vector<Interference> same = {{100, 30}, {100, 30}};
  for (TimeNs start = 0; start < 300; start += 7) {
    for (DurationNs duration = 0; duration < 400; duration += 11) {
      EXPECT_EQ(Interrupted(one, start, duration), Interrupted(same, start, duration))
          << start << " " << duration;
    }
  }
}

TEST(Jitter, shapes_have_the_mean_and_the_spread_they_say) {
  constexpr int kDraws = 200'000;
  constexpr double kSpread = 0.2;
  for (size_t shape = 0; shape < kJitterShapes; ++shape) {
    double sum = 0;
    double squares = 0;
    for (uint32_t draw = 0; draw < kDraws; ++draw) {
      const double factor =
          JitterFactor(static_cast<JitterShape>(shape), kSpread, NoiseBits({1, Rank(2), 3, draw}));
      ASSERT_GE(factor, 0);
      sum += factor;
      squares += factor * factor;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, 1, 0.002) << shape;
    EXPECT_NEAR(std::sqrt(squares / kDraws - mean * mean), kSpread, 0.003) << shape;
  }
}

TEST(Perturbations, slow_host_delays_what_it_issues) {
  graph::Graph graph = TinyGraph({{Kernel(0, 10), Kernel(0, 10)}});
  graph.cluster.parameters.SetValue("host.kernel_ns", 100);
  Perturbation host;
  host.kind = PerturbationKind::kHost;
  host.ranks = {Rank(0)};
  host.factor = 1.5;
  const Result<ReplayResult> result = Replay(graph, With(host));
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->timelines[0].end, ElementsAre(160, 310, 460, 610));
}

// The host runs ahead of the device and pauses for 1,000 ns before every second iteration; the last
// ends where the next could begin.
TEST(Perturbations, pause_comes_between_iterations) {
  const graph::Graph graph =
      TinyGraph({{Kernel(0, 100), Collective(0, 0, 10)}, {Kernel(0, 100), Collective(0, 0, 10)}});
  Perturbation pause;
  pause.kind = PerturbationKind::kPeriodic;
  pause.ranks = {Rank(1)};
  pause.period_iterations = 2;
  pause.duration_ns = 1000;
  ReplayOptions options = With(pause);
  options.iterations = 4;
  const Result<ReplayResult> result = Replay(graph, options);
  ASSERT_TRUE(result.ok());
  // Rank 1 begins at 0, 110, 1000, 1110 and, paused again, 2000; rank 0 begins at 220 what ends
  // with rank 1's at 1110.
  EXPECT_THAT(result->iteration_ns, ElementsAre(110, 890, 890, 890));
}

// Rank 1 waits for rank 0 in every iteration; rank 0 begins late only in the first.
TEST(Perturbations, those_without_effect_are_told) {
  graph::Graph graph = TinyGraph({{Kernel(0, 100), Collective(0, 0, 10), Sync()},
                                  {Kernel(0, 40), Collective(0, 0, 10), Sync()}});
  ReplayOptions options;
  options.perturbations.push_back({.kind = PerturbationKind::kLate,
                                   .ranks = {Rank(0)},
                                   .delay_ns = 1000,
                                   .text = "late:0:0.000001"});
  options.perturbations.push_back(
      {.kind = PerturbationKind::kHost, .ranks = {Rank(0)}, .factor = 2, .text = "host:0:2"});
  const auto warnings = [&] {
    const Result<ReplayResult> with = Replay(graph, options);
    PRISM_CHECK(with.ok());
    const auto found = WarnOfNoEffect(graph, options, *with);
    PRISM_CHECK(found.ok());
    return *found;
  };
  ASSERT_EQ(warnings().size(), 1U);
  EXPECT_EQ(warnings()[0].count, 2);
  EXPECT_EQ(warnings()[0].example,
            "late:0:0.000001: iteration 3, which gives the numbers, is the same without it; "
            "--iterations 1 shows the first");
  // Rank 1 waits longer or shorter, which the iteration does not show.
  options.perturbations[1] = {PerturbationKind::kStraggler, {Rank(1)}, 2};
  EXPECT_EQ(warnings()[0].count, 1);
  options.iterations = 1;
  EXPECT_TRUE(warnings().empty());
  // If there are many, those of one kind count as one.
  options.iterations = 3;
  options.perturbations.resize(1);
  options.perturbations.insert(options.perturbations.end(), 16, options.perturbations[0]);
  options.perturbations.push_back({PerturbationKind::kStraggler, {Rank(1)}, 2});
  EXPECT_EQ(warnings()[0].count, 17);
  EXPECT_THAT(warnings()[0].example, HasSubstr("late:0:0.000001 and 16 more of its kind: "));
}

TEST(Perturbations, periods_that_leave_no_time_are_refused) {
  const graph::Graph graph = TinyGraph({{Kernel(0, 10)}});
  Perturbation periodic;
  periodic.kind = PerturbationKind::kPeriodic;
  periodic.ranks = {Rank(0)};
  periodic.period_ns = 1'000'000;
  periodic.duration_ns = 1'000'000;
  EXPECT_EQ(Replay(graph, With(periodic)).status().code(), StatusCode::kInvalidArgument);
  periodic.period_ns = 10;
  periodic.duration_ns = 5;
  EXPECT_EQ(Replay(graph, With(periodic)).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace prism::replayer
