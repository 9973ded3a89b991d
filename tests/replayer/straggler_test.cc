// The slow rank is found from the symptoms of a replay in which it was slowed; none is found if
// none was slowed.
#include "replayer/blame/straggler.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/base/rng.h"
#include "replayer/engine/replay_options.h"
#include "replayer/perturb/perturbation.h"
#include "replayer/replay.h"
#include "slicer/workloads/workloads.h"
#include "tests/support/test_parameters.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/uniform_pipeline.h"

namespace prism::replayer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

graph::Graph Pipeline(int32_t tp, int32_t dp, int32_t pp) {
  prism::testing::UniformPipeline job;
  job.parallel = {.tp = tp, .dp = dp, .pp = pp};
  job.microbatches = 6;
  job.forward_ns = 2'000'000;
  job.backward_ns = 4'000'000;
  job.layers_per_chunk = 8;
  job.tensor_bytes = 8 << 20;
  job.gradient_bytes = 64 << 20;
  Result<graph::Graph> graph = prism::testing::MakeUniformPipeline(job);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  graph->cluster = prism::testing::TestCluster();
  return *std::move(graph);
}

std::vector<graph::Graph> Jobs() {
  std::vector<graph::Graph> jobs;
  jobs.push_back(Pipeline(2, 2, 4));
  jobs.push_back(Pipeline(4, 4, 1));
  jobs.push_back(Pipeline(1, 8, 2));
  jobs.push_back(Pipeline(8, 1, 4));
  jobs.push_back(Pipeline(1, 1, 6));  // every rank the only one of its role
  Result<graph::Graph> layers = slicer::MakeWorkload("gpt3-layer", 256);
  EXPECT_TRUE(layers.ok());
  layers->cluster = prism::testing::TestCluster();
  jobs.push_back(*std::move(layers));
  return jobs;
}

std::vector<uint32_t> Named(const graph::Graph& graph, const ReplayOptions& options) {
  const Result<ReplayResult> result = Replay(graph, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  std::vector<uint32_t> ranks;
  for (const Suspect& suspect : FindStraggler(graph, result->ranks, result->waits_ns).suspects) {
    EXPECT_FALSE(suspect.evidence.empty());
    ranks.push_back(suspect.rank.value());
  }
  return ranks;
}

ReplayOptions With(PerturbationKind kind, uint32_t rank, double factor) {
  ReplayOptions options;
  options.iterations = 2;
  Perturbation slow;
  slow.kind = kind;
  slow.ranks = {Rank(rank)};
  slow.factor = factor;
  options.perturbations = {slow};
  return options;
}

Perturbation Noise() {
  Perturbation noise;
  noise.kind = PerturbationKind::kJitter;
  noise.factor = 0.02;
  return noise;
}

TEST(FindStraggler, names_the_rank_that_was_slowed) {
  Rng rng(3, "stragglers");
  for (const graph::Graph& graph : Jobs()) {
    for (int draw = 0; draw < 8; ++draw) {
      const auto rank = static_cast<uint32_t>(rng.UniformInt(0, graph.ranks.size() - 1));
      const double factor = 1.05 + 0.95 * rng.UniformReal();
      SCOPED_TRACE("rank " + std::to_string(rank) + " of " + std::to_string(graph.ranks.size()) +
                   " factor " + std::to_string(factor));
      ReplayOptions options = With(PerturbationKind::kStraggler, rank, factor);
      EXPECT_THAT(Named(graph, options), ElementsAre(rank));
      options.perturbations.push_back(Noise());
      options.seed = static_cast<uint64_t>(draw);
      EXPECT_THAT(Named(graph, options), ElementsAre(rank)) << "with noise";
    }
  }
}

TEST(FindStraggler, names_nobody_where_nobody_is_slow) {
  for (const graph::Graph& graph : Jobs()) {
    ReplayOptions options;
    options.iterations = 2;
    EXPECT_THAT(Named(graph, options), IsEmpty());
    options.perturbations = {Noise()};
    for (options.seed = 0; options.seed < 8; ++options.seed) {
      EXPECT_THAT(Named(graph, options), IsEmpty()) << "seed " << options.seed;
    }
  }
}

// The only rank of a role that copies on the device does more than others, not the same more
// slowly.
TEST(FindStraggler, takes_copies_on_the_device_for_work) {
  using prism::testing::Collective;
  using prism::testing::Kernel;
  std::vector<std::vector<prism::testing::TinyOp>> ranks;
  for (DurationNs rank = 0; rank < 4; ++rank) {
    ranks.push_back({Kernel(0, 1'000'000 + 100'000 * rank), Collective(0, 0, 100'000)});
  }
  for (const graph::OpKind kind : {graph::OpKind::kMemcpy, graph::OpKind::kMemset}) {
    prism::testing::TinyOp on_device = Kernel(0, 200'000);
    on_device.kind = kind;
    on_device.flags = graph::kDurationFixed;
    ranks[0].push_back(on_device);
  }
  EXPECT_THAT(Named(prism::testing::TinyGraph(ranks), {}), IsEmpty());
}

// A rank with a slow host computes as fast as others, yet others wait for it.
TEST(FindStraggler, names_a_slow_host) {
  graph::Graph graph = Pipeline(2, 4, 2);
  for (const char* key : {"host.kernel_ns", "host.collective_ns"}) {
    graph.cluster.parameters.SetValue(key, 200'000);
  }
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    EXPECT_THAT(Named(graph, With(PerturbationKind::kHost, rank, 3)), ElementsAre(rank));
  }
}

TEST(FindStraggler, tells_who_waits_for_whom) {
  const graph::Graph graph = Pipeline(4, 4, 1);
  const Result<ReplayResult> result = Replay(graph, With(PerturbationKind::kStraggler, 5, 1.5));
  ASSERT_TRUE(result.ok());
  const Symptoms symptoms = FindStraggler(graph, result->ranks, result->waits_ns);
  ASSERT_FALSE(symptoms.waiting.empty());
  bool found = false;  // the other three of its tensor-parallel group
  for (const Waiting& waiting : symptoms.waiting) {
    found = found || (waiting.awaited == Rank(5) && waiting.ranks == 3);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace prism::replayer
