#include "replayer/engine/engine.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replayer/replay.h"
#include "replayer/report/rank_activity.h"
#include "tests/support/test_parameters.h"
#include "tests/support/tiny_graph.h"

namespace prism::replayer {
namespace {

using prism::testing::Collective;
using prism::testing::EventSync;
using prism::testing::Gap;
using prism::testing::Kernel;
using prism::testing::Receive;
using prism::testing::Record;
using prism::testing::Send;
using prism::testing::Sync;
using prism::testing::TinyGraph;
using prism::testing::Wait;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ReplayOptions Options(int32_t iterations, std::vector<Rank> traced = {}) {
  ReplayOptions options;
  options.iterations = iterations;
  options.traced = std::move(traced);
  return options;
}

ReplayResult MustReplay(const graph::Graph& graph, const ReplayOptions& options) {
  Result<ReplayResult> result = Replay(graph, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : ReplayResult();
}

TEST(Engine, kernel_starts_at_the_latest_of_issue_and_stream_tail) {
  graph::Graph graph = TinyGraph({{Kernel(0, 50), Kernel(0, 50), Gap(500), Kernel(0, 50)}});
  graph.cluster.parameters.SetValue("host.kernel_ns", 20);
  ReplayResult result = MustReplay(graph, Options(1, {Rank(0)}));
  // Issued at 20, 40, (gap to 540) 560; the second waits for the first, the third for its issue.
  EXPECT_THAT(result.timelines[0].issue, ElementsAre(20, 40, 540, 560));
  EXPECT_THAT(result.timelines[0].start, ElementsAre(20, 70, 40, 560));
  EXPECT_THAT(result.timelines[0].end, ElementsAre(70, 120, 540, 610));
}

// A prefetcher's stream waits for nobody and runs ahead; only the first batch is waited for.
TEST(Engine, a_stream_that_waits_for_nobody_does_not_tell_the_iteration) {
  const graph::Graph graph =
      TinyGraph({{Kernel(1, 30), Record(1), Wait(0, 1), Kernel(0, 60), Kernel(0, 40), Gap(30)}});
  EXPECT_THAT(MustReplay(graph, Options(3)).iteration_ns, ElementsAre(130, 100, 100));
}

// Each iteration waits for the previous one, even the one after the last.
TEST(Engine, host_waits_in_front_of_the_first_op_count_for_the_last_iteration) {
  const graph::Graph graph = TinyGraph({{Sync(), Gap(20), Kernel(0, 100)}});
  EXPECT_THAT(MustReplay(graph, Options(3)).iteration_ns, ElementsAre(120, 120, 120));
}

// A batch that the host waits for, loaded on a separate stream: that of the iteration after the
// last is waited for as well.
TEST(Engine, what_is_loaded_in_front_of_the_first_op_counts_for_the_last_iteration) {
  const graph::Graph loads = TinyGraph(
      {{Kernel(1, 30), Record(1), EventSync(1), Kernel(0, 100), Kernel(0, 1), Sync(), Gap(5)}});
  const ReplayResult result = MustReplay(loads, Options(3, {Rank(0)}));
  EXPECT_THAT(result.iteration_ns, ElementsAre(136, 136, 136));
  EXPECT_EQ(result.ranks[0].compute_ns, 131);
  // If the host does not wait for the model, the next batch is loaded meanwhile.
  const graph::Graph ahead =
      TinyGraph({{Kernel(1, 30), Record(1), EventSync(1), Kernel(0, 60), Kernel(0, 40)}});
  EXPECT_THAT(MustReplay(ahead, Options(3)).iteration_ns, ElementsAre(100, 100, 100));
}

// Not the stream with the most kernels.
TEST(Engine, the_stream_with_most_kernel_time_tells_the_iteration) {
  const graph::Graph graph =
      TinyGraph({{Kernel(0, 100), Kernel(1, 5), Kernel(1, 5), Kernel(1, 5)}});
  EXPECT_THAT(MustReplay(graph, Options(3)).iteration_ns, ElementsAre(100, 100, 100));
}

TEST(Engine, event_wait_orders_streams_and_device_sync_holds_the_host) {
  graph::Graph graph = TinyGraph(
      {{Kernel(1, 300), Record(1), Kernel(0, 10), Wait(0, 1), Kernel(0, 5), Sync(), Kernel(1, 7)}});
  ReplayResult result = MustReplay(graph, Options(1, {Rank(0)}));
  EXPECT_THAT(result.timelines[0].end, ElementsAre(300, 300, 10, 300, 305, 305, 312));
}

TEST(Engine, collective_starts_with_its_last_member_and_ends_for_all) {
  graph::Graph graph = TinyGraph({{Kernel(0, 100), Collective(0, 0, 30), Kernel(0, 1)},
                                  {Kernel(0, 40), Collective(0, 0, 30), Kernel(0, 2)}});
  ReplayResult result = MustReplay(graph, Options(1, {Rank(0), Rank(1)}));
  EXPECT_THAT(result.timelines[0].end, ElementsAre(100, 130, 131));
  EXPECT_THAT(result.timelines[1].end, ElementsAre(40, 130, 132));
  EXPECT_EQ(result.timelines[1].start[1], 40);
  EXPECT_EQ(result.timelines[1].transfer_start[1], 100);
  // Rank 1: 40 + 2 compute, 30 transfer, 60 waiting for another stage, nothing idle.
  EXPECT_EQ(result.ranks[1].iteration_ns, 132);
  EXPECT_EQ(result.ranks[1].compute_ns, 42);
  EXPECT_EQ(result.ranks[1].exposed_comm_ns, 30);
  EXPECT_EQ(result.ranks[1].bubble_ns, 60);
  EXPECT_EQ(result.ranks[1].idle_ns, 0);
  EXPECT_EQ(result.communicators[0].calls, 1);
  EXPECT_EQ(result.communicators[0].transfer_ns, 30);
  EXPECT_EQ(result.communicators[0].wait_ns_max, 60);
}

// A ring inside of a stage is no pipeline: who waits in it is idle.
TEST(Engine, waiting_for_a_peer_is_bubble_only_if_it_is_in_another_stage) {
  graph::Graph graph = TinyGraph({{Kernel(0, 100), Send(0, 1, 30), Kernel(0, 1)},
                                  {Kernel(0, 40), Receive(0, 0, 30), Kernel(0, 2)}});
  for (const bool same_stage : {false, true}) {
    graph.roles[1].stage = same_stage ? graph.roles[0].stage : graph.roles[0].stage + 1;
    const ReplayResult result = MustReplay(graph, Options(1, {Rank(1)}));
    EXPECT_EQ(result.ranks[1].exposed_comm_ns, 30);
    EXPECT_EQ(result.ranks[1].bubble_ns, same_stage ? 0 : 60);
    EXPECT_EQ(result.ranks[1].idle_ns, same_stage ? 60 : 0);
    DurationNs drawn_bubble = 0;
    for (const ActivitySpan& span : SteadyActivity(graph, result.timelines[0], result.ranks[1])) {
      drawn_bubble += span.kind == SpanKind::kBubble ? span.end - span.begin : 0;
    }
    EXPECT_EQ(drawn_bubble, result.ranks[1].bubble_ns);
  }
}

// One group with a message on each of two communicators.
TEST(Engine, the_time_of_a_group_counts_for_its_first_communicator) {
  prism::testing::TinyOp sends = Send(0, 1, 30);
  sends.transfers.push_back({true, 1, 1, 1 << 20});
  prism::testing::TinyOp receives = Receive(0, 0, 30);
  receives.transfers.push_back({false, 1, 0, 1 << 20});
  graph::Graph graph = TinyGraph({{Kernel(0, 100), sends}, {Kernel(0, 40), receives}});
  graph.communicators.name.push_back(2);
  graph.communicators.members = {0, 1, 0, 1};
  graph.communicators.begin = {0, 2, 4};
  graph.ranks.comm_ids = {0, 1, 0, 1};
  graph.ranks.comm_begin = {0, 2, 4};
  for (graph::Role& role : graph.roles) {
    role.program.comm_slot_count = 2;
  }
  const ReplayResult result = MustReplay(graph, Options(1));
  EXPECT_EQ(result.communicators[0].calls, 1);
  EXPECT_EQ(result.communicators[0].transfer_ns, 30);
  EXPECT_EQ(result.communicators[0].wait_ns_max, 60);
  EXPECT_EQ(result.communicators[1].calls, 1);
  EXPECT_EQ(result.communicators[1].transfer_ns, 0);
  EXPECT_EQ(result.communicators[1].wait_ns_max, 0);
}

// Three kernels in front of the first op are one; those of the iteration after the last, which the
// replay adds to see where it ends, are not counted.
TEST(Engine, counts_the_ops_that_it_folds) {
  const graph::Graph graph = TinyGraph({{Kernel(1, 10), Kernel(1, 10), Kernel(1, 10), Record(1),
                                         EventSync(3), Kernel(0, 100), Sync()}});
  ReplayOptions options = Options(2);
  options.breakdown = false;
  const ReplayResult result = MustReplay(graph, options);
  EXPECT_EQ(result.folded_ops, 6);
  EXPECT_EQ(result.rank_ops, 2 * 7 - 6);
}

// Rank 0 enqueues A then B, rank 1 B then A, each on separate streams: no deadlock.
TEST(Engine, opposite_orders_on_different_streams_go_on) {
  graph::Graph graph =
      TinyGraph({{Receive(0, 1, 10), Send(1, 1, 20)}, {Receive(0, 0, 20), Send(1, 0, 10)}});
  ReplayResult result = MustReplay(graph, Options(2, {Rank(0)}));
  EXPECT_THAT(result.timelines[0].end, ElementsAre(10, 20, 20, 40));
}

TEST(Engine, small_sends_do_not_wait_large_ones_do) {
  // Sends of 64 bytes (below the threshold of 4096) and of 1 MiB, both 10 ns long, to a receiver
  // that is busy until 500.
  for (int64_t bytes : {int64_t{64}, int64_t{1} << 20U}) {
    graph::Graph graph = TinyGraph({{Send(0, 1, 10, bytes), Kernel(0, 1)},
                                    {Kernel(0, 500), Receive(0, 0, 10, bytes), Kernel(0, 1)}});
    ReplayResult result = MustReplay(graph, Options(1, {Rank(0), Rank(1)}));
    bool eager = bytes == 64;
    EXPECT_EQ(result.timelines[0].end[0], eager ? 10 : 510) << bytes;
    EXPECT_EQ(result.timelines[1].end[1], eager ? 500 : 510) << bytes;
  }
}

TEST(Engine, overlap_charges_the_wait) {
  // A transfer of 100 beside 300 of compute, slowed by 1.5: (1.5 - 1) * min(100, 300) = 50.
  graph::Graph graph = TinyGraph({{Kernel(0, 10), Collective(1, 0, 100), Record(1), Kernel(0, 300),
                                   Wait(0, 2), Kernel(0, 1)}});
  graph.cluster.parameters.SetValue("overlap.compute_slowdown", 1.5);
  ReplayResult result = MustReplay(graph, Options(1, {Rank(0)}));
  EXPECT_THAT(result.timelines[0].end, ElementsAre(10, 100, 100, 310, 360, 361));
  EXPECT_EQ(result.ranks[0].compute_ns, 361);
}

TEST(Engine, straggler_and_late_rank_delay_their_peers) {
  graph::Graph graph =
      TinyGraph({{Kernel(0, 100), Collective(0, 0, 10)}, {Kernel(0, 100), Collective(0, 0, 10)}});
  ReplayOptions options = Options(2);
  Perturbation straggler;
  straggler.ranks = {Rank(1)};
  straggler.factor = 1.5;
  options.perturbations = {straggler};
  EXPECT_EQ(MustReplay(graph, options).steady_iteration_ns(), 160);
  Perturbation late;
  late.kind = PerturbationKind::kLate;
  late.ranks = {Rank(1)};
  late.delay_ns = 77;
  options.perturbations = {late};
  options.traced = {Rank(0)};
  EXPECT_THAT(MustReplay(graph, options).timelines[0].end, ElementsAre(100, 187, 287, 297));
}

TEST(Engine, killed_rank_stalls_its_peers_by_name) {
  graph::Graph graph = TinyGraph({{Kernel(0, 1), Collective(0, 0, 10)},
                                  {Kernel(0, 1), Collective(0, 0, 10)},
                                  {Kernel(0, 1), Collective(0, 0, 10)}});
  ReplayOptions options = Options(3);
  Perturbation kill;
  kill.kind = PerturbationKind::kKill;
  kill.ranks = {Rank(2)};
  kill.iteration = 1;
  options.perturbations = {kill};
  Result<ReplayResult> result = Replay(graph, options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kRunFailed);
  EXPECT_THAT(
      result.status().message(),
      HasSubstr("rank 0 (stage 0) waits in all_reduce number 0 of world (op 1, iteration 1"));
  EXPECT_THAT(
      result.status().message(),
      HasSubstr("the replay stalls: rank 2 (stage 2) was killed at the start of iteration 1"));
}

TEST(Engine, jitter_depends_on_the_seed_alone) {
  graph::Graph graph =
      TinyGraph({{Kernel(0, 1000), Collective(0, 0, 10)}, {Kernel(0, 1000), Collective(0, 0, 10)}});
  ReplayOptions options = Options(3);
  Perturbation jitter;
  jitter.kind = PerturbationKind::kJitter;
  jitter.factor = 0.1;
  options.perturbations = {jitter};
  options.seed = 1;
  auto first = MustReplay(graph, options).iteration_ns;
  EXPECT_EQ(first, MustReplay(graph, options).iteration_ns);
  options.seed = 2;
  EXPECT_NE(first, MustReplay(graph, options).iteration_ns);
}

TEST(Engine, gate_stops_a_rank_and_a_gap_delays_the_other) {
  graph::Graph graph = TinyGraph({{Kernel(0, 100), Collective(0, 0, 10), Sync(), Kernel(0, 5)},
                                  {Kernel(0, 20), Collective(0, 0, 10), Sync(), Kernel(0, 5)}});
  for (bool first_issues_first : {true, false}) {
    Result<Engine> engine = Engine::Create(graph, Options(1), {Rank(0), Rank(1)});
    ASSERT_TRUE(engine.ok());
    EXPECT_FALSE(engine->Run());
    engine->Issue(Rank(0), 1);
    EXPECT_FALSE(engine->Run());
    EXPECT_EQ(engine->EndTime(Rank(0), 0), 100);
    EXPECT_EQ(engine->EndTime(Rank(0), 1), std::nullopt);
    engine->InsertHostGap(Rank(0), 1000);  // a sleep between op 0 and op 1
    Rank early = first_issues_first ? Rank(0) : Rank(1);
    Rank late = first_issues_first ? Rank(1) : Rank(0);
    engine->Issue(early, 3);
    EXPECT_FALSE(engine->Run());
    EXPECT_EQ(engine->HostTime(early), std::nullopt);  // waits in the sync for the other
    engine->Issue(late, 3);
    EXPECT_FALSE(engine->Run());
    // The collective begins when rank 0's host arrives at 1000, for both.
    EXPECT_EQ(engine->HostTime(Rank(0)), 1010);
    EXPECT_EQ(engine->HostTime(Rank(1)), 1010);
    engine->Issue(Rank(0), 4);
    engine->Issue(Rank(1), 4);
    EXPECT_TRUE(engine->Run());
    EXPECT_EQ(engine->EndTime(Rank(1), 3), 1015);
  }
}

TEST(Engine, a_rank_is_idle_when_its_last_stream_is) {
  const graph::Graph graph = TinyGraph({{Kernel(0, 100), Kernel(1, 30)}});
  Result<Engine> engine = Engine::Create(graph, Options(1), {Rank(0)});
  ASSERT_TRUE(engine.ok());
  engine->Issue(Rank(0), 2);
  EXPECT_TRUE(engine->Run());
  EXPECT_EQ(engine->HostTime(Rank(0)), 0);
  EXPECT_EQ(engine->IdleTime(Rank(0)), 100);
  engine->InsertHostGap(Rank(0), 500);
  EXPECT_EQ(engine->HostTime(Rank(0)), std::nullopt) << "until the rank goes on";
  engine->Run();
  EXPECT_EQ(engine->HostTime(Rank(0)), 500);
  EXPECT_EQ(engine->IdleTime(Rank(0)), 500);
}

// The host and a stream that does not communicate are late by as much; nobody computes meanwhile.
TEST(Engine, a_measured_delay_is_no_compute) {
  const graph::Graph graph =
      TinyGraph({{Kernel(1, 100), Kernel(0, 50), Collective(0, 0, 10), Kernel(1, 100), Sync()}});
  Result<Engine> engine = Engine::Create(graph, Options(1), {Rank(0)});
  ASSERT_TRUE(engine.ok());
  engine->MeasureArrivals(Rank(0));
  engine->Issue(Rank(0), 3);
  engine->Run();
  EXPECT_EQ(engine->ComputedArrival(Rank(0), 2), 50);
  engine->Arrive(Rank(0), 2, 1000);
  engine->Run();
  engine->Issue(Rank(0), 5);
  EXPECT_TRUE(engine->Run());
  EXPECT_EQ(engine->EndTime(Rank(0), 3), 1150);
  EXPECT_EQ(engine->Summarise().ranks[0].compute_ns, 200);
}

TEST(Engine, an_iteration_may_begin_with_a_measured_arrival) {
  const graph::Graph graph = TinyGraph({{Collective(0, 0, 10), Kernel(0, 50), Sync()}});
  Result<Engine> engine = Engine::Create(graph, Options(2), {Rank(0)});
  ASSERT_TRUE(engine.ok());
  engine->MeasureArrivals(Rank(0));
  engine->Issue(Rank(0), 6);
  engine->Arrive(Rank(0), 0, 7);
  engine->Arrive(Rank(0), 3, 100);
  EXPECT_TRUE(engine->Run());
  EXPECT_THAT(engine->Summarise().iteration_ns, ElementsAre(93, 60));
}

// Rank 0 arrives twice while rank 1 has not: what waits already is not shifted with the rest.
TEST(Engine, a_measured_delay_does_not_move_what_already_waits) {
  const graph::Graph graph =
      TinyGraph({{Collective(1, 0, 10), Kernel(1, 5), Kernel(0, 50), Collective(0, 0, 10)},
                 {Kernel(0, 300), Collective(0, 0, 10), Collective(0, 0, 10), Kernel(0, 1)}});
  Result<Engine> engine = Engine::Create(graph, Options(1), {Rank(0), Rank(1)});
  ASSERT_TRUE(engine.ok());
  engine->MeasureArrivals(Rank(0));
  engine->Issue(Rank(0), 4);
  engine->Arrive(Rank(0), 0, 0);
  engine->Run();
  engine->Arrive(Rank(0), 3, 1000);
  engine->Run();
  engine->Issue(Rank(1), 4);
  EXPECT_TRUE(engine->Run());
  EXPECT_EQ(engine->EndTime(Rank(0), 0), 310);
  EXPECT_EQ(engine->EndTime(Rank(0), 1), 315);
  EXPECT_EQ(engine->EndTime(Rank(0), 3), 1010);
}

// Nor the events that its stream recorded before it waited.
TEST(Engine, a_measured_delay_does_not_move_events_of_what_already_waits) {
  const graph::Graph graph = TinyGraph({{Collective(0, 0, 10), Kernel(1, 100), Record(1),
                                         Collective(1, 0, 10), Wait(0, 2), Kernel(0, 5)},
                                        {Collective(0, 0, 10), Collective(0, 0, 10)}});
  Result<Engine> engine = Engine::Create(graph, Options(1), {Rank(0), Rank(1)});
  ASSERT_TRUE(engine.ok());
  engine->MeasureArrivals(Rank(0));
  engine->Issue(Rank(0), 6);
  engine->Issue(Rank(1), 1);
  engine->Arrive(Rank(0), 3, 100);
  engine->Run();
  engine->Arrive(Rank(0), 0, 50);
  engine->Run();
  EXPECT_EQ(engine->EndTime(Rank(0), 0), 60);
  EXPECT_EQ(engine->EndTime(Rank(0), 5), 105);
}

TEST(Engine, refuses_a_cluster_that_no_model_can_use) {
  graph::Graph graph = TinyGraph({{Kernel(0, 1)}});
  graph.cluster.parameters.SetValue("net.nic_bytes_per_s", 0);
  Status status = Replay(graph, Options(1)).status();
  EXPECT_EQ(status.code(), StatusCode::kBadFile);
  EXPECT_THAT(status.message(), HasSubstr("net.nic_bytes_per_s"));

  graph = TinyGraph({{Kernel(0, 1)}});
  graph.cluster.gpus_per_node = 0;
  EXPECT_EQ(Replay(graph, Options(1)).status().code(), StatusCode::kBadFile);
}

TEST(Engine, refuses_stragglers_beyond_what_time_can_hold) {
  graph::Graph graph = TinyGraph({{Kernel(0, 1)}});
  ReplayOptions options = Options(1);
  Perturbation straggler;
  straggler.ranks = {Rank(0)};
  straggler.factor = 1e5;
  options.perturbations = {straggler};
  EXPECT_TRUE(Replay(graph, options).ok());
  options.perturbations = {straggler, straggler};
  EXPECT_EQ(Replay(graph, options).status().code(), StatusCode::kInvalidArgument);
}

// Four nodes of one rank. A ring does not cross the link between 0 and 2; messages do.
TEST(Engine, a_slow_link_holds_up_an_all_to_all_over_it) {
  graph::Graph graph = TinyGraph(std::vector(4, std::vector{Collective(0, 0, 100)}));
  graph.cluster.gpus_per_node = 1;
  ReplayOptions options = Options(1);
  Perturbation link;
  link.kind = PerturbationKind::kLink;
  link.factor = 10;
  options.perturbations = {link};
  const auto slowed = [&](graph::CollectiveKind kind, int32_t node) {
    for (graph::Role& role : graph.roles) {
      role.program.collectives[0].kind = kind;
    }
    options.perturbations[0].node_a = 0;
    options.perturbations[0].node_b = node;
    return MustReplay(graph, options).iteration_ns.back();
  };
  EXPECT_EQ(slowed(graph::CollectiveKind::kAllReduce, 1), 1000);
  EXPECT_EQ(slowed(graph::CollectiveKind::kAllReduce, 2), 100);
  EXPECT_EQ(slowed(graph::CollectiveKind::kAllToAll, 1), 1000);
  EXPECT_EQ(slowed(graph::CollectiveKind::kAllToAll, 2), 1000);
}

// How often a stream was asked whether it can advance, per op of one iteration.
double LooksPerOp(const graph::Graph& graph) {
  Result<Engine> engine = Engine::Create(graph, Options(1), {});
  PRISM_CHECK(engine.ok());
  PRISM_CHECK(engine->Run());
  return static_cast<double>(engine->stream_looks()) / static_cast<double>(graph.OpsPerIteration());
}

// Every rank is a separate role that exchanges messages with every other: in one group on one
// stream, and each on its own stream. Asking all streams whenever a message ends would be cubic in
// the ranks: here, with 100 streams, 100 times more.
TEST(Engine, asks_few_streams_an_op_for_messages_between_all) {
  constexpr uint16_t kRanks = 50;
  std::vector<std::vector<prism::testing::TinyOp>> grouped(kRanks);
  std::vector<std::vector<prism::testing::TinyOp>> apart(kRanks);
  for (uint16_t rank = 0; rank < kRanks; ++rank) {
    prism::testing::TinyOp messages = Send(0, rank, 10);
    messages.transfers.clear();
    apart[rank].push_back(Kernel(0, rank));
    for (uint16_t peer = 0; peer < kRanks; ++peer) {
      for (const bool is_send : {true, false}) {
        messages.transfers.push_back({is_send, 0, peer, 1024});
      }
      if (peer != rank) {
        apart[rank].push_back(Send(static_cast<uint16_t>(2 * peer), peer, 10));
        apart[rank].push_back(Receive(static_cast<uint16_t>(2 * peer + 1), peer, 10));
      }
    }
    apart[rank].push_back(Sync());
    grouped[rank] = {messages};
  }
  EXPECT_EQ(MustReplay(TinyGraph(grouped), Options(1)).iteration_ns.back(), 10);
  EXPECT_LE(LooksPerOp(TinyGraph(grouped)), 4);
  EXPECT_LE(LooksPerOp(TinyGraph(apart, 2 * kRanks)), 4);
}

TEST(Engine, refuses_ranks_and_nodes_that_the_job_lacks) {
  graph::Graph graph = TinyGraph({{Kernel(0, 1)}});
  EXPECT_EQ(Replay(graph, Options(0)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Replay(graph, Options(1, {Rank(1)})).status().code(), StatusCode::kInvalidArgument);
  ReplayOptions options = Options(1);
  Perturbation link;
  link.kind = PerturbationKind::kLink;
  link.node_a = 0;
  link.node_b = 7;
  options.perturbations = {link};
  EXPECT_EQ(Replay(graph, options).status().code(), StatusCode::kInvalidArgument);
  options.perturbations[0].node_b = 0;
  EXPECT_THAT(Replay(graph, options).status().message(), HasSubstr("from node 0 to itself"));
}

}  // namespace
}  // namespace prism::replayer
