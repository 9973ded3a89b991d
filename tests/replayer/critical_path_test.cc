// Critical paths computed by hand; that they hold on random graphs is in
// tests/property/critical_path_test.cc.
#include "replayer/blame/critical_path.h"

#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/blame/blame.h"
#include "tests/support/test_parameters.h"
#include "tests/support/tiny_graph.h"
#include "tests/support/uniform_pipeline.h"

namespace prism::replayer {
namespace {

using prism::testing::Collective;
using prism::testing::Gap;
using prism::testing::Kernel;
using prism::testing::Receive;
using prism::testing::Record;
using prism::testing::Send;
using prism::testing::Sync;
using prism::testing::TinyGraph;
using prism::testing::Wait;
using ::testing::ElementsAre;

constexpr const char* kKindNames[] = {"compute", "copy", "overlap", "transfer", "host", "late"};

// "rank op kind begin-end" of every step.
std::vector<std::string> Steps(const graph::Graph& graph, const ReplayOptions& options) {
  const Result<CriticalPath> path = FindCriticalPath(graph, options);
  EXPECT_TRUE(path.ok()) << path.status().message();
  std::vector<std::string> texts;
  for (const PathStep& step : path->steps) {
    texts.push_back(std::to_string(step.rank.value()) + " " + std::to_string(step.op) + " " +
                    kKindNames[static_cast<size_t>(step.kind)] + " " + std::to_string(step.begin) +
                    "-" + std::to_string(step.end));
  }
  return texts;
}

ReplayOptions Iterations(int32_t count) {
  ReplayOptions options;
  options.iterations = count;
  return options;
}

TEST(CriticalPath, goes_to_the_member_that_came_last) {
  const graph::Graph graph =
      TinyGraph({{Kernel(0, 60), Collective(0, 0, 10)}, {Kernel(0, 100), Collective(0, 0, 10)}});
  EXPECT_THAT(Steps(graph, Iterations(2)),
              ElementsAre("1 0 compute 110-210", "0 1 transfer 210-220"));
}

TEST(CriticalPath, goes_to_the_lowest_of_those_that_came_together) {
  const std::vector<prism::testing::TinyOp> ops = {Kernel(0, 100), Collective(0, 0, 10)};
  std::vector<std::vector<prism::testing::TinyOp>> ranks = {ops, ops, ops};
  ranks[2].push_back(Kernel(0, 5));
  EXPECT_THAT(Steps(TinyGraph(ranks), Iterations(1)),
              ElementsAre("0 0 compute 0-100", "2 1 transfer 100-110", "2 2 compute 110-115"));
}

// Two small messages of one group end together: the path is told along the first.
TEST(CriticalPath, goes_along_the_first_of_sends_that_end_together) {
  prism::testing::TinyOp sends = Send(0, 1, 10, 64);
  sends.transfers.push_back({true, 0, 2, 64});
  const Result<CriticalPath> path =
      FindCriticalPath(TinyGraph({{Kernel(0, 100), sends, Kernel(0, 5)},
                                  {Receive(0, 0, 10, 64)},
                                  {Receive(0, 0, 10, 64)}}),
                       Iterations(1));
  ASSERT_TRUE(path.ok()) << path.status().message();
  ASSERT_EQ(path->steps.size(), 3U);
  EXPECT_EQ(path->steps[1].kind, PathKind::kTransfer);
  EXPECT_EQ(path->steps[1].partner, Rank(1));
}

// Rank 0 computes until 50, sends until 60; rank 1 then has received, computes until 90 and begins
// to receive again; rank 0 is ready for that at 110, and it ends at 120.
TEST(CriticalPath, goes_to_the_sender_that_came_later) {
  const graph::Graph graph = TinyGraph(
      {{Kernel(0, 50), Send(0, 1, 10, 1 << 24)}, {Receive(0, 0, 10, 1 << 24), Kernel(0, 30)}});
  EXPECT_THAT(Steps(graph, Iterations(3)),
              ElementsAre("0 0 compute 120-170", "0 1 transfer 170-180"));
}

// The compute stream waits for the copy stream through an event; the kernel there takes longest.
TEST(CriticalPath, follows_events_across_streams) {
  const graph::Graph graph =
      TinyGraph({{Kernel(1, 100), Record(1), Kernel(0, 20), Wait(0, 1), Kernel(0, 5), Sync()}});
  EXPECT_THAT(Steps(graph, Iterations(1)), ElementsAre("0 0 compute 0-100", "0 4 compute 100-105"));
}

// The host issues a kernel in 100 ns, sleeps 40 and issues the next.
TEST(CriticalPath, follows_the_host) {
  graph::Graph graph = TinyGraph({{Kernel(0, 10), Gap(40), Kernel(0, 10), Sync()}});
  graph.cluster.parameters.SetValue("host.kernel_ns", 100);
  // Begins at 100 when the first kernel does, ends when the next iteration's first could.
  EXPECT_THAT(Steps(graph, Iterations(1)), ElementsAre("0 1 host 100-140", "0 2 host 140-240",
                                                       "0 2 compute 240-250", "0 0 host 250-350"));
}

// The cost of overlap with a collective is on the wait that pays for it.
TEST(CriticalPath, tells_overlap_apart) {
  graph::Graph graph = TinyGraph({{Kernel(0, 10), Collective(1, 0, 100), Record(1), Kernel(0, 300),
                                   Wait(0, 2), Kernel(0, 1)}});
  graph.cluster.parameters.SetValue("overlap.compute_slowdown", 1.5);
  EXPECT_THAT(Steps(graph, Iterations(1)),
              ElementsAre("0 0 compute 0-10", "0 3 compute 10-310", "0 4 overlap 310-360",
                          "0 5 compute 360-361"));
}

DurationNs Share(const std::vector<BlameItem>& items, const std::string& what) {
  for (const BlameItem& item : items) {
    if (item.what == what) {
      return item.ns;
    }
  }
  return -1;
}

// Rank 1 has 80 to do on its own while it waits for 100 of rank 0, and 150 after that: the path
// goes through rank 0, but only 20 of that are lost to waiting.
TEST(Blame, what_another_stage_does_meanwhile_is_no_bubble) {
  graph::Graph graph = TinyGraph({{Kernel(0, 100), Send(0, 1, 10, 1 << 24)},
                                  {Kernel(0, 80), Receive(0, 0, 10, 1 << 24), Kernel(0, 150)}});
  graph.roles[1].stage = 1;
  const Result<CriticalPath> path = FindCriticalPath(graph, Iterations(1));
  ASSERT_TRUE(path.ok());
  const Result<Blame> blame = BlamePath(graph, Iterations(1), *path);
  ASSERT_TRUE(blame.ok());
  EXPECT_EQ(blame->home_stage, 1);
  EXPECT_EQ(blame->home_rank, Rank(1));
  EXPECT_EQ(Share(blame->shares, "compute"), 80 + 150);
  EXPECT_EQ(Share(blame->shares, "bubble"), 20);
  EXPECT_EQ(Share(blame->bubble, "compute"), 20);
}

TEST(Blame, shares_sum_to_the_iteration_and_name_the_bubble) {
  prism::testing::UniformPipeline job;
  job.parallel = {.tp = 2, .dp = 2, .pp = 4};
  job.microbatches = 8;
  job.forward_ns = 2'000'000;
  job.backward_ns = 4'000'000;
  job.layers_per_chunk = 2;
  job.tensor_bytes = 8 << 20;
  Result<graph::Graph> graph = prism::testing::MakeUniformPipeline(job);
  ASSERT_TRUE(graph.ok());
  graph->cluster = prism::testing::TestCluster();
  const Result<CriticalPath> path = FindCriticalPath(*graph, {});
  ASSERT_TRUE(path.ok());
  const Result<Blame> blamed = BlamePath(*graph, {}, *path);
  ASSERT_TRUE(blamed.ok());
  const Blame& blame = *blamed;
  const auto sum = [](const std::vector<BlameItem>& items) {
    return std::accumulate(items.begin(), items.end(), DurationNs{0},
                           [](DurationNs total, const BlameItem& item) { return total + item.ns; });
  };
  EXPECT_EQ(sum(blame.shares), blame.iteration_ns);
  EXPECT_EQ(sum(blame.ops), blame.iteration_ns);
  EXPECT_EQ(sum(blame.stages), blame.iteration_ns);
  // 1F1B: 8 micro-batches of 6 ms, and 3 more while the pipeline fills and drains.
  EXPECT_EQ(Share(blame.shares, "compute"), 8 * 6'000'000);
  EXPECT_EQ(Share(blame.bubble, "compute"), 3 * 6'000'000);
  EXPECT_EQ(sum(blame.bubble), Share(blame.shares, "bubble"));
  EXPECT_GT(Share(blame.shares, "communication: tp"), 0);
}

}  // namespace
}  // namespace prism::replayer
