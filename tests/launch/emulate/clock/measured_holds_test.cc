// Sandbox ranks on a real GPU, seen from process 0: arrivals by a GPU's timer are fed in by hand,
// deadlines by the same timer come out.
#include "launch/emulate/clock/measured_holds.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "launch/emulate/clock/coordinator.h"
#include "tests/support/tell_coordinator.h"
#include "tests/support/tiny_graph.h"

namespace prism::launch {
namespace {

using testing::Collective;
using testing::Kernel;

constexpr int64_t kGpu = 5'000'000'000;  // where a GPU's timer happens to stand

// Per iteration: a kernel (100 and 300 ns), then a collective of 50 ns of both ranks.
graph::Graph TwoRanks() {
  return testing::TinyGraph(
      {{Kernel(0, 100), Collective(0, 0, 50)}, {Kernel(0, 300), Collective(0, 0, 50)}});
}

class MeasuredHoldsTest : public ::testing::Test {
 protected:
  void Start(double scale, const std::vector<Rank>& ranks = {Rank(0)}) {
    replayer::ReplayOptions options;
    options.iterations = 3;
    Result<Coordinator> made = Coordinator::Create(graph_, options, ranks);
    ASSERT_TRUE(made.ok()) << made.status().message();
    coordinator_.emplace(*std::move(made));
    coordinator_->MeasureArrivals(scale);
    for (const Rank rank : ranks) {
      Tell(RankEventKind::kIssued, rank, 6, 0);
    }
  }

  void Tell(RankEventKind kind, Rank rank, replayer::OpPosition position, int64_t value) {
    testing::TellCoordinator({.kind = kind, .rank = rank, .position = position, .value = value},
                             &*coordinator_);
  }

  // The rank arrives at its collective; until when it is held there, from kGpu.
  int64_t Arrive(replayer::OpPosition position, int64_t gpu_ns) {
    Tell(RankEventKind::kArrived, Rank(0), position, kGpu + gpu_ns);
    const AnswerBatch batch = coordinator_->Advance();
    EXPECT_EQ(batch.holds.size(), 1U);
    return batch.holds.empty() ? -1 : batch.holds[0].gpu_ns - kGpu;
  }

  void Pass(replayer::OpPosition position, int64_t gpu_ns) {
    Tell(RankEventKind::kPassed, Rank(0), position, kGpu + gpu_ns);
  }

  graph::Graph graph_ = TwoRanks();
  std::optional<Coordinator> coordinator_;
};

TEST_F(MeasuredHoldsTest, the_first_arrival_sets_the_clocks) {
  Start(1);
  // According to the graph it arrives at 100, its peer at 300; the transfer ends at 350.
  EXPECT_EQ(Arrive(1, 7000), 7250);
}

TEST_F(MeasuredHoldsTest, a_rank_as_fast_as_its_graph_gives_the_times_of_the_graph) {
  Start(1);
  EXPECT_EQ(Arrive(1, 0), 250);    // virtual 350
  EXPECT_EQ(Arrive(3, 350), 600);  // virtual 450; the peer 650, end 700
  EXPECT_EQ(Arrive(5, 700), 950);  // virtual 1050
  coordinator_->RankLeft(Rank(0));
  coordinator_->Advance();
  ASSERT_TRUE(coordinator_->finished());
  EXPECT_EQ(coordinator_->Summarise().steady_iteration_ns(), 350);
}

TEST_F(MeasuredHoldsTest, a_late_rank_delays_its_peer_and_the_iteration_by_what_is_left_of_slack) {
  Start(1);
  EXPECT_EQ(Arrive(1, 0), 250);
  // 1000 later than in the graph: virtual 1450, which is 800 behind the peer.
  EXPECT_EQ(Arrive(3, 1350), 1400);
  EXPECT_EQ(Arrive(5, 1500), 1750);  // back in step: the peer arrives at 1800, end 1850
  coordinator_->RankLeft(Rank(0));
  coordinator_->Advance();
  const replayer::ReplayResult result = coordinator_->Summarise();
  EXPECT_EQ(result.iteration_ns[1], 350 + 800);
}

// The iteration begins with the collective, so what was measured is its beginning.
TEST_F(MeasuredHoldsTest, an_iteration_begins_when_the_rank_was_measured_to_arrive) {
  graph_ = testing::TinyGraph(
      {{Collective(0, 0, 50), Kernel(0, 100)}, {Collective(0, 0, 50), Kernel(0, 300)}});
  Start(1);
  EXPECT_EQ(Arrive(0, 0), 50);
  EXPECT_EQ(Arrive(2, 1150), 1200);  // 1000 later than in the graph, 800 behind the peer
  EXPECT_EQ(Arrive(4, 1240), 1550);  // 60 earlier than in the graph; the peer arrives at 1500
  coordinator_->RankLeft(Rank(0));
  coordinator_->Advance();
  ASSERT_TRUE(coordinator_->finished());
  const replayer::ReplayResult result = coordinator_->Summarise();
  EXPECT_EQ(result.iteration_ns[0], 1150);  // of this rank; of its peer 350
  // The last one ends where the next would begin: one kernel after the transfer.
  EXPECT_EQ(result.ranks[0].iteration_ns, 1550 + 100 - 1240);
}

TEST_F(MeasuredHoldsTest, a_rank_late_within_its_slack_delays_nobody) {
  Start(1);
  EXPECT_EQ(Arrive(1, 0), 250);
  EXPECT_EQ(Arrive(3, 500), 600);
}

TEST_F(MeasuredHoldsTest, a_faster_gpu_arrives_earlier) {
  Start(1, {Rank(0), Rank(1)});
  const auto arrive = [this](replayer::OpPosition position, int64_t first, int64_t second) {
    Tell(RankEventKind::kArrived, Rank(0), position, kGpu + first);
    Tell(RankEventKind::kArrived, Rank(1), position, kGpu + second);
    const AnswerBatch batch = coordinator_->Advance();
    EXPECT_EQ(batch.holds.size(), 2U);
    return std::pair{batch.holds[0].gpu_ns - kGpu, batch.holds[1].gpu_ns - kGpu};
  };
  EXPECT_EQ(arrive(1, 100, 300), std::pair(int64_t{350}, int64_t{350}));
  // Both take 10 ns for what takes 100 and 300 in the graph.
  EXPECT_EQ(arrive(3, 360, 360), std::pair(int64_t{410}, int64_t{410}));
  EXPECT_EQ(arrive(5, 420, 420), std::pair(int64_t{470}, int64_t{470}));
  for (const Rank rank : {Rank(0), Rank(1)}) {
    coordinator_->RankLeft(rank);
  }
  coordinator_->Advance();
  ASSERT_TRUE(coordinator_->finished());
  EXPECT_EQ(coordinator_->Summarise().iteration_ns[1], 60);
}

TEST_F(MeasuredHoldsTest, a_scale_stretches_the_gpu_at_hand_to_the_target) {
  Start(4);
  EXPECT_EQ(Arrive(1, 0), 63);  // 250 of virtual time, rounded up
  // Virtual 1352, which is 702 behind the peer; end 1402.
  EXPECT_EQ(Arrive(3, 313), 326);
}

TEST_F(MeasuredHoldsTest, a_hold_that_ends_too_late_does_not_make_the_rank_late) {
  Start(1);
  EXPECT_EQ(Arrive(1, 0), 250);
  Pass(1, 250 + 20'000);  // virtual time stood still at 350
  EXPECT_EQ(Arrive(3, 20'350), 20'600);
  Pass(3, 20'600 + 100);  // within what a hold may add
  EXPECT_EQ(coordinator_->hold_accuracy().holds, 2);
  EXPECT_EQ(coordinator_->hold_accuracy().late, 1);
  EXPECT_EQ(coordinator_->hold_accuracy().latest_ns, 20'000);
}

TEST_F(MeasuredHoldsTest, an_arrival_waits_for_what_the_host_has_not_issued_yet) {
  replayer::ReplayOptions options;
  Result<Coordinator> made = Coordinator::Create(graph_, options, {Rank(0)});
  ASSERT_TRUE(made.ok());
  coordinator_.emplace(*std::move(made));
  coordinator_->MeasureArrivals(1);
  Tell(RankEventKind::kArrived, Rank(0), 1, kGpu);
  EXPECT_TRUE(coordinator_->Advance().holds.empty());
  Tell(RankEventKind::kIssued, Rank(0), 2, 0);
  EXPECT_EQ(coordinator_->Advance().holds.size(), 1U);
}

TEST(ClockMap, deadlines_are_never_early_and_at_most_a_step_late) {
  for (const double scale : {0.25, 1.0, 1.7, 40.0}) {
    ClockMap map(1'000'000'007, 500, scale);
    for (int64_t virtual_ns = 500; virtual_ns < 1'000'000; virtual_ns += 997) {
      const double exact = static_cast<double>(virtual_ns - 500) / scale;
      const auto since = static_cast<double>(map.ToGpu(virtual_ns) - 1'000'000'007);
      EXPECT_GE(since, exact);
      EXPECT_LT(since, exact + 1);
    }
    EXPECT_EQ(map.ToVirtual(1'000'000'007), 500);
    EXPECT_EQ(map.ToVirtual(1'000'000'007 + 1000), 500 + static_cast<int64_t>(1000 * scale));
  }
}

TEST(ClockMap, a_moved_anchor_leaves_out_what_passed_in_between) {
  ClockMap map(1000, 0, 2);
  EXPECT_EQ(map.ToGpu(200), 1100);
  map.MoveAnchor(1500, 200);  // the hold should have ended at 1100
  EXPECT_EQ(map.ToVirtual(1600), 400);
}

}  // namespace
}  // namespace prism::launch
