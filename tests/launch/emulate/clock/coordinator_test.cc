// Sandbox ranks in virtual time, without processes: the messages of workers are fed in by hand.
#include "launch/emulate/clock/coordinator.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tiny_graph.h"

namespace prism::launch {
namespace {

using testing::Collective;
using ::testing::HasSubstr;
using testing::Kernel;
using ::testing::Not;
using testing::Record;
using testing::Sync;
using testing::TinyOp;

// Both ranks: a kernel (100 and 300 ns), a collective of 50 ns, a wait for everything.
graph::Graph TwoRanks() {
  return testing::TinyGraph({{Kernel(0, 100), Collective(0, 0, 50), Record(0), Sync()},
                             {Kernel(0, 300), Collective(0, 0, 50), Record(0), Sync()}});
}

Coordinator Make(const graph::Graph& graph,
                 const std::vector<Rank>& sandbox_ranks,
                 int32_t iterations = 1) {
  replayer::ReplayOptions options;
  options.iterations = iterations;
  Result<Coordinator> coordinator = Coordinator::Create(graph, options, sandbox_ranks);
  PRISM_CHECK_MSG(coordinator.ok(), coordinator.status().message());
  return *std::move(coordinator);
}

RankEvent Event(RankEventKind kind, uint32_t rank) {
  RankEvent event;
  event.kind = kind;
  event.rank = Rank(rank);
  return event;
}

RankEvent Issued(uint32_t rank, replayer::OpPosition position) {
  RankEvent event = Event(RankEventKind::kIssued, rank);
  event.position = position;
  return event;
}

RankEvent Ask(RankEventKind kind, uint32_t rank) {
  RankEvent event = Event(kind, rank);
  event.request = rank + 1;
  return event;
}

void Take(Coordinator& coordinator, const std::vector<RankEvent>& events) {
  WireWriter out;
  for (const RankEvent& event : events) {
    PutEvent(event, &out);
  }
  const std::string bytes = out.Take();
  WireReader in(bytes);
  coordinator.Take(&in);
}

TEST(Coordinator, a_wait_is_answered_with_the_time_at_which_the_graph_ends_it) {
  const graph::Graph graph = TwoRanks();
  Coordinator coordinator = Make(graph, {Rank(0)});
  Take(coordinator, {Issued(0, 4), Ask(RankEventKind::kAskHostTime, 0)});
  const AnswerBatch batch = coordinator.Advance();
  // The virtual rank 1 arrives at 300, the transfer takes 50.
  ASSERT_EQ(batch.answers.size(), 1U);
  EXPECT_EQ(batch.answers[0].host_time_ns, 350);
  ASSERT_EQ(batch.ends.size(), 1U);
  EXPECT_EQ(batch.ends[0].position, 2);
  EXPECT_EQ(batch.ends[0].end_ns, 350);
  coordinator.RankLeft(Rank(0));
  coordinator.Advance();
  EXPECT_TRUE(coordinator.finished());
}

TEST(Coordinator, a_sandbox_rank_waits_for_what_another_has_not_issued_yet) {
  const graph::Graph graph = TwoRanks();
  Coordinator coordinator = Make(graph, {Rank(0), Rank(1)});
  Take(coordinator, {Issued(0, 4), Ask(RankEventKind::kAskHostTime, 0)});
  EXPECT_TRUE(coordinator.Advance().answers.empty());
  // Rank 1 sleeps for 1000 ns first: its kernel begins then, and both feel it.
  RankEvent sleep = Event(RankEventKind::kHostGap, 1);
  sleep.value = 1000;
  Take(coordinator, {sleep, Issued(1, 4), Ask(RankEventKind::kAskHostTime, 1)});
  const AnswerBatch batch = coordinator.Advance();
  ASSERT_EQ(batch.answers.size(), 2U);
  EXPECT_EQ(batch.answers[0].host_time_ns, 1350);
  EXPECT_EQ(batch.answers[1].host_time_ns, 1350);
  EXPECT_EQ(coordinator.extra_host_ns(), 1000);
  EXPECT_THAT(coordinator.extra_host_example(), HasSubstr("rank 1"));
}

TEST(Coordinator, a_departure_tells_both_sides_and_who_then_waits) {
  const graph::Graph graph = TwoRanks();
  Coordinator coordinator = Make(graph, {Rank(0)});
  RankEvent departed = Event(RankEventKind::kDeparted, 0);
  departed.position = 1;
  departed.did = "all_gather of 8 bytes";
  departed.expected = "all_reduce of 4 bytes";
  Take(coordinator, {Issued(0, 1), departed});
  const std::string& report = coordinator.departure();
  EXPECT_THAT(report, HasSubstr("rank 0 departs from the graph in iteration 0"));
  EXPECT_THAT(report, HasSubstr("it does:  all_gather of 8 bytes"));
  EXPECT_THAT(report, HasSubstr("graph:    all_reduce of 4 bytes"));
  EXPECT_THAT(report, HasSubstr("ranks 0, 1"));
  EXPECT_THAT(report, HasSubstr("then rank 1"));
}

TEST(Coordinator, a_departure_tells_what_is_known_to_lead_to_one) {
  graph::Graph graph = TwoRanks();
  graph.warnings = {{"several_issuing_threads", 1, ""}};
  Coordinator coordinator = Make(graph, {Rank(0)});
  RankEvent departed = Event(RankEventKind::kDeparted, 0);
  departed.expected = "all_reduce of 4 bytes";
  Take(coordinator, {Issued(0, 1), departed});
  EXPECT_THAT(coordinator.departure(), HasSubstr("in an order by chance"));
  EXPECT_THAT(coordinator.departure(), Not(HasSubstr("give it a seed")));
}

TEST(Coordinator, what_comes_behind_an_iteration_is_told_as_of_that_one) {
  const graph::Graph graph = TwoRanks();
  Coordinator coordinator = Make(graph, {Rank(0)}, 3);
  RankEvent departed = Event(RankEventKind::kDeparted, 0);
  departed.position = 8;
  departed.did = "all_gather of 8 bytes";
  Take(coordinator, {Issued(0, 8), departed});
  EXPECT_THAT(coordinator.departure(), HasSubstr("in iteration 1\n"));
  EXPECT_THAT(coordinator.departure(), HasSubstr("the end of the iteration"));
}

// One poll of a loop, for an event whose end a worker could have known as well.
TEST(Coordinator, a_poll_in_a_loop_passes_the_same_time_whoever_answers_it) {
  const graph::Graph graph = TwoRanks();
  Coordinator coordinator = Make(graph, {Rank(0)});
  RankEvent poll = Ask(RankEventKind::kAskEvent, 0);
  poll.position = 2;
  poll.value = 7;
  Take(coordinator, {Issued(0, 3), poll});
  EXPECT_EQ(coordinator.Advance().answers.at(0).host_time_ns, 0);
  poll.loop_ns = 70;
  Take(coordinator, {poll});
  const RankAnswer answer = coordinator.Advance().answers.at(0);
  EXPECT_EQ(answer.status, 1);
  EXPECT_EQ(answer.host_time_ns, 70);
  EXPECT_EQ(coordinator.extra_host_ns(), 70);
}

// From the first of three iterations (350 ns each) to what is recorded after the last.
TEST(Coordinator, time_between_events_may_span_iterations_and_end_behind_them) {
  const graph::Graph graph = TwoRanks();
  Coordinator coordinator = Make(graph, {Rank(0)}, 3);
  RankEvent elapsed = Ask(RankEventKind::kAskElapsed, 0);
  elapsed.position = 2;
  elapsed.value = 10;
  Take(coordinator, {Issued(0, 12), elapsed});
  EXPECT_EQ(coordinator.Advance().answers.at(0).value_ns, 700);
  elapsed.value = kBehindLast;
  Take(coordinator, {elapsed});
  EXPECT_EQ(coordinator.Advance().answers.at(0).value_ns, 700);
  elapsed.position = kBeforeFirst;
  Take(coordinator, {elapsed});
  EXPECT_EQ(coordinator.Advance().answers.at(0).value_ns, 1050);
}

TEST(Coordinator, time_between_events_is_not_known_before_both_are_over_for_the_host) {
  const graph::Graph graph = TwoRanks();
  Coordinator coordinator = Make(graph, {Rank(0)});
  RankEvent elapsed = Ask(RankEventKind::kAskElapsed, 0);
  elapsed.position = kBeforeFirst;
  elapsed.value = 2;
  Take(coordinator, {Issued(0, 3), elapsed});
  EXPECT_EQ(coordinator.Advance().answers.at(0).status, 1);
  Take(coordinator, {Issued(0, 4), elapsed});
  const RankAnswer answer = coordinator.Advance().answers.at(0);
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.value_ns, 350);
}

TEST(Coordinator, a_wait_that_is_left_out_at_the_end_is_no_departure) {
  TinyOp wait = Sync();
  wait.kind = graph::OpKind::kEventSync;
  wait.dep = 1;
  const graph::Graph graph = testing::TinyGraph({{Kernel(0, 100), Record(0), wait}});
  Coordinator coordinator = Make(graph, {Rank(0)});
  Take(coordinator, {Issued(0, 2)});
  coordinator.RankLeft(Rank(0));
  coordinator.Advance();
  EXPECT_EQ(coordinator.departure(), "");
  EXPECT_TRUE(coordinator.finished());
}

TEST(Coordinator, a_rank_that_ends_too_early_has_departed) {
  const graph::Graph graph = TwoRanks();
  Coordinator coordinator = Make(graph, {Rank(0)});
  Take(coordinator, {Issued(0, 1)});
  coordinator.RankLeft(Rank(0));
  EXPECT_THAT(coordinator.departure(), HasSubstr("the end of its program"));
}

// It became steady after two of its four iterations.
TEST(Coordinator, a_rank_with_too_few_iterations_is_told_how_many_it_needs) {
  graph::Graph graph = TwoRanks();
  graph.job.facts.warmup_iterations = 2;
  Coordinator coordinator = Make(graph, {Rank(0)});
  Take(coordinator, {Issued(0, 1)});
  coordinator.RankLeft(Rank(0));
  EXPECT_THAT(coordinator.departure(), HasSubstr("it has 2 iterations, the first 2 before they "
                                                 "repeat; "));
  EXPECT_THAT(coordinator.departure(),
              HasSubstr("of those that repeat are replayed, so it needs "));
}

}  // namespace
}  // namespace prism::launch
