// The bubble of a pipeline with equal stages, no host cost and free messages is the closed form of
// Narayanan et al., SC21, section 2.2.
#include <gtest/gtest.h>

#include "replayer/engine/replay_options.h"
#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"
#include "tests/support/test_parameters.h"
#include "tests/support/uniform_pipeline.h"

namespace prism::replayer {
namespace {

constexpr DurationNs kForward = 1'000'003;
constexpr DurationNs kBackward = 2'000'029;

graph::ClusterSpec FreeCluster() {
  graph::ClusterSpec cluster = prism::testing::TestCluster();
  prism::testing::MakeFree(&cluster);
  for (const char* latency : {"p2p.base_ns", "net.hop_ns"}) {
    cluster.parameters.SetValue(latency, 0);
  }
  return cluster;
}

// Times are totals over all chunks of a stage.
void ExpectClosedForm(int32_t pp, int32_t vpp, int64_t microbatches) {
  prism::testing::UniformPipeline pipeline;
  pipeline.parallel.pp = pp;
  pipeline.parallel.vpp = vpp;
  pipeline.parallel.dp = 2;
  pipeline.microbatches = microbatches;
  pipeline.forward_ns = kForward;  // of one chunk
  pipeline.backward_ns = kBackward;
  pipeline.message_bytes = 0;
  Result<graph::Graph> graph = prism::testing::MakeUniformPipeline(pipeline);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  graph->cluster = FreeCluster();
  Result<ReplayResult> result = Replay(*graph, ReplayOptions());
  ASSERT_TRUE(result.ok()) << result.status().message();
  DurationNs per_chunk = kForward + kBackward;
  DurationNs expected = (microbatches * vpp + pp - 1) * per_chunk;
  EXPECT_EQ(result->steady_iteration_ns(), expected)
      << "pp " << pp << " vpp " << vpp << " microbatches " << microbatches;
  for (const RankTimes& times : result->ranks) {
    EXPECT_EQ(times.iteration_ns, expected);
    EXPECT_EQ(times.compute_ns, microbatches * vpp * per_chunk);
    EXPECT_EQ(times.exposed_comm_ns, 0);
    EXPECT_EQ(times.bubble_ns, (pp - 1) * per_chunk);
    EXPECT_EQ(times.idle_ns, 0);
  }
  EXPECT_EQ(result->classes, pp);
}

TEST(Pipeline, one_forward_one_backward_has_the_closed_bubble) {
  for (int32_t pp : {1, 2, 3, 4, 8, 16}) {
    for (int64_t microbatches : {1, 2, 5, 24}) {
      ExpectClosedForm(pp, 1, microbatches);
    }
  }
}

TEST(Pipeline, interleaved_schedule_has_the_closed_bubble) {
  for (int32_t pp : {2, 4, 8}) {
    for (int32_t vpp : {2, 3, 4}) {
      for (int64_t rounds : {1, 2, 3}) {
        ExpectClosedForm(pp, vpp, pp * rounds);
      }
    }
  }
}

}  // namespace
}  // namespace prism::replayer
