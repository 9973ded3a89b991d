// A replay after an edit against a full replay of the edited job, on random graphs.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "replayer/delta/delta_replay.h"
#include "tests/support/random_graph.h"
#include "tests/support/test_parameters.h"
#include "tests/support/tiny_graph.h"

namespace prism::replayer {
namespace {

int64_t Draw(int64_t low, int64_t high) {
  return *rc::gen::inRange(low, high + 1);
}

bool Coin() {
  return Draw(0, 1) == 1;
}

graph::Graph DrawGraph() {
  graph::Graph graph =
      prism::testing::RandomGraph(prism::testing::RandomOptions(*rc::gen::arbitrary<uint64_t>()));
  graph.cluster = prism::testing::TestCluster();
  for (size_t role = 0; role < graph.roles.size(); ++role) {
    graph.roles[role].name = "role " + std::to_string(role);
  }
  graph.cluster.parameters.SetValue("p2p.eager_bytes", Coin() ? 0 : 1 << 20U);
  graph.cluster.gpus_per_node = *rc::gen::element(2, 1, 64);
  return graph;
}

Rank DrawRank(const graph::Graph& graph) {
  return Rank(static_cast<uint32_t>(Draw(0, graph.ranks.size() - 1)));
}

Perturbation DrawPerturbation(const graph::Graph& graph) {
  Perturbation perturbation;
  const int64_t nodes = (graph.ranks.size() - 1) / graph.cluster.gpus_per_node + 1;
  switch (Draw(0, nodes > 1 ? 2 : 1)) {
    case 0:
      perturbation.ranks = {DrawRank(graph)};
      perturbation.factor = 0.5 + 0.1 * static_cast<double>(Draw(0, 15));
      break;
    case 1:
      perturbation.kind = PerturbationKind::kLate;
      perturbation.ranks = {DrawRank(graph)};
      perturbation.delay_ns = Draw(0, 30'000);
      break;
    default:
      perturbation.kind = PerturbationKind::kLink;
      perturbation.node_a = static_cast<int32_t>(Draw(0, nodes - 1));
      perturbation.node_b =
          static_cast<int32_t>((perturbation.node_a + Draw(1, nodes - 1)) % nodes);
      perturbation.factor = 3;
      break;
  }
  return perturbation;
}

ReplayOptions DrawOptions(const graph::Graph& graph) {
  ReplayOptions options;
  options.iterations = static_cast<int32_t>(Draw(1, 3));
  options.classes = Coin();
  options.breakdown = Draw(0, 3) > 0;
  for (int64_t i = Draw(0, 2); i > 0; --i) {
    options.perturbations.push_back(DrawPerturbation(graph));
  }
  if (Draw(0, 3) == 0) {
    Perturbation jitter;
    jitter.kind = PerturbationKind::kJitter;
    jitter.factor = 0.1;
    options.perturbations.push_back(jitter);
    options.seed = *rc::gen::arbitrary<uint64_t>();
  }
  return options;
}

// A few ops of one role: of all its ranks, or of one.
ProgramEdit DrawProgramEdit(const graph::Graph& graph) {
  ProgramEdit edit;
  const Rank rank = DrawRank(graph);
  edit.role = graph.ranks.role[rank.value()];
  if (Coin()) {
    edit.ranks = {rank};
  }
  const graph::Program& program = graph.roles[edit.role].program;
  std::vector<uint32_t> ops;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (program.kind[op] == graph::OpKind::kKernel || program.kind[op] == graph::OpKind::kMemset ||
        program.kind[op] == graph::OpKind::kMemcpy) {
      ops.push_back(op);
    }
  }
  for (int64_t i = ops.empty() ? 0 : Draw(1, 3); i > 0; --i) {
    edit.durations.push_back(
        {ops[static_cast<size_t>(Draw(0, static_cast<int64_t>(ops.size()) - 1))],
         Draw(0, 3) * Draw(0, 20'000)});
  }
  return edit;
}

ReplayOptions DrawOtherOptions(const graph::Graph& graph, ReplayOptions options) {
  const auto jitters = [](const Perturbation& p) { return p.kind == PerturbationKind::kJitter; };
  switch (Draw(0, 3)) {
    case 0:
      options.perturbations.push_back(DrawPerturbation(graph));
      break;
    case 1:
      options.perturbations.erase(std::remove_if(options.perturbations.begin(),
                                                 options.perturbations.end(), std::not_fn(jitters)),
                                  options.perturbations.end());
      break;
    case 2: {
      options.placement.resize(graph.ranks.size());
      std::iota(options.placement.begin(), options.placement.end(), 0U);
      std::swap(options.placement[DrawRank(graph).value()],
                options.placement[DrawRank(graph).value()]);
      break;
    }
    default:
      options.algorithms.push_back({"", Coin() ? NcclAlgorithm::kTree : NcclAlgorithm::kRing});
      break;
  }
  return options;
}

// A program with which a role does the same with different durations: different kernels, different
// ones launched as one, longer gaps.
graph::Role DrawRoleProgram(const graph::Graph& graph) {
  graph::Role role = graph.role_of(DrawRank(graph));
  graph::Program& program = role.program;
  for (uint32_t op = 0; op < program.size(); ++op) {
    if (Draw(0, 3) > 0) {
      continue;
    }
    switch (program.kind[op]) {
      case graph::OpKind::kKernel:
        program.signature[op] =
            static_cast<uint32_t>(Draw(0, static_cast<int64_t>(graph.signatures.size()) - 1));
        program.flags[op] ^= Coin() ? graph::kDurationFixed : graph::kLaunchedWithPrevious;
        program.value.Set(op, Draw(0, 20'000));
        break;
      case graph::OpKind::kHostGap:
        program.value.Set(op, Draw(0, 50'000));
        break;
      default:
        break;
    }
  }
  return role;
}

Edit DrawEdit(const graph::Graph& graph, const ReplayOptions& options) {
  Edit edit;
  if (Draw(0, 3) == 0) {
    edit.role_program = DrawRoleProgram(graph);
  } else {
    for (int64_t i = Draw(0, 2); i > 0; --i) {
      edit.programs.push_back(DrawProgramEdit(graph));
    }
  }
  if (Draw(0, 2) == 0) {
    edit.options = DrawOtherOptions(graph, options);
  }
  if (Draw(0, 5) == 0) {
    edit.cluster = graph.cluster;
    const bool network = Coin();
    edit.cluster->parameters.SetValue(network ? "net.nic_bytes_per_s" : "host.kernel_ns",
                                      network ? 2e9 : 1234);
  }
  return edit;
}

void CompareWithFull(const graph::Graph& graph,
                     const ReplayOptions& options,
                     const Edit& edit,
                     const DeltaResult& delta) {
  Result<EditedJob> job = ApplyEdit(graph, options, edit);
  RC_ASSERT(job.ok());
  Result<ReplayResult> full = Replay(job->graph, job->options);
  RC_ASSERT(full.ok());
  RC_ASSERT(delta.replay->iteration_ns == full->iteration_ns);
  RC_ASSERT(bool(delta.replay->ranks == full->ranks));
  RC_ASSERT(bool(delta.replay->communicators == full->communicators));
}

RC_GTEST_PROP(DeltaProperty, equals_a_full_replay, ()) {
  const graph::Graph graph = DrawGraph();
  const ReplayOptions options = DrawOptions(graph);
  DeltaSettings settings;
  settings.holds_per_checkpoint = static_cast<uint32_t>(Draw(1, 8));
  settings.most_work = 1e9;  // never given up
  Result<std::unique_ptr<DeltaReplay>> recorded = DeltaReplay::Record(graph, options, settings);
  RC_ASSERT(recorded.ok());
  // Several, so that one that leaves state behind is caught by the next.
  for (int i = 0; i < 4; ++i) {
    const Edit edit = DrawEdit(graph, options);
    Result<DeltaResult> delta = (*recorded)->Evaluate(edit);
    RC_LOG() << delta.status().message();
    RC_ASSERT(delta.ok());
    RC_CLASSIFY(delta->full);
    RC_ASSERT(!delta->full ||
              delta->why_full == "the stream that tells the iteration is chosen by durations");
    CompareWithFull(graph, options, edit, *delta);
  }
}

// A program with one op more is a different order; a later delta is not affected by it.
RC_GTEST_PROP(DeltaProperty, replays_other_programs_in_full_and_says_so, ()) {
  const graph::Graph graph = DrawGraph();
  const ReplayOptions options = DrawOptions(graph);
  Result<std::unique_ptr<DeltaReplay>> recorded = DeltaReplay::Record(graph, options);
  RC_ASSERT(recorded.ok());
  Edit edit;
  edit.role_program = graph.role_of(DrawRank(graph));
  graph::OpRow gap;
  gap.kind = graph::OpKind::kHostGap;
  gap.value = Draw(0, 20'000);
  edit.role_program->program.Append(gap);
  Result<DeltaResult> delta = (*recorded)->Evaluate(edit);
  RC_ASSERT(delta.ok());
  RC_ASSERT(delta->full);
  RC_ASSERT(delta->why_full == "the program does other things");
  CompareWithFull(graph, options, edit, *delta);
}

// An edit that is given up leaves nothing behind.
RC_GTEST_PROP(DeltaProperty, is_given_up_where_too_much_differs, ()) {
  const graph::Graph graph = DrawGraph();
  const ReplayOptions options = DrawOptions(graph);
  Result<std::unique_ptr<DeltaReplay>> recorded =
      DeltaReplay::Record(graph, options, {.holds_per_checkpoint = 2, .most_work = 0.01});
  RC_ASSERT(recorded.ok());
  for (int i = 0; i < 4; ++i) {
    const Edit edit = DrawEdit(graph, options);
    Result<DeltaResult> delta = (*recorded)->Evaluate(edit);
    RC_ASSERT(delta.ok());
    RC_CLASSIFY(delta->full);
    CompareWithFull(graph, options, edit, *delta);
  }
}

// Rank 0 sends to rank 1, computes, and sends to ranks 1 and 2. Rank 1 receives both as one group;
// meanwhile its other stream meets nobody but itself and passes a checkpoint.
graph::Graph ThreeRanks() {
  using prism::testing::Collective;
  using prism::testing::Kernel;
  using prism::testing::Receive;
  using prism::testing::Record;
  using prism::testing::Send;
  using prism::testing::Wait;
  prism::testing::TinyOp group = Receive(0, 0, 10);
  group.transfers.push_back(Receive(0, 2, 10).transfers.front());
  graph::Graph graph =
      prism::testing::TinyGraph({{Send(0, 1, 10), Kernel(0, 1000), Send(0, 1, 10), Send(0, 2, 10)},
                                 {Receive(0, 0, 10), Record(0), group, Wait(1, 1),
                                  Collective(1, 1, 7), Kernel(1, 5), Collective(1, 1, 7)},
                                 {Receive(0, 0, 10), Send(0, 1, 10)}});
  graph.cluster.parameters.SetValue("p2p.eager_bytes", 0);
  graph.communicators.name.push_back(2);
  graph.communicators.members.push_back(1);
  graph.communicators.begin.push_back(4);
  graph.ranks.comm_ids = {0, 0, 1, 0};
  graph.ranks.comm_begin = {0, 1, 3, 4};
  graph.roles[1].program.comm_slot_count = 2;
  return graph;
}

// Longer kernels make the other stream the one on which the iteration is counted.
TEST(Delta, replays_in_full_where_durations_choose_the_stream_of_the_iteration) {
  using prism::testing::Kernel;
  const graph::Graph graph = prism::testing::TinyGraph({{Kernel(0, 100), Kernel(1, 40)}});
  ReplayOptions options;
  options.iterations = 2;
  Result<std::unique_ptr<DeltaReplay>> recorded = DeltaReplay::Record(graph, options);
  ASSERT_TRUE(recorded.ok()) << recorded.status().message();
  EXPECT_EQ((*recorded)->baseline().iteration_ns.back(), 100);
  Edit edit;
  edit.programs = {{.role = 0, .ranks = {}, .durations = {{.op = 1, .duration_ns = 300}}}};
  const Result<DeltaResult> delta = (*recorded)->Evaluate(edit);
  ASSERT_TRUE(delta.ok()) << delta.status().message();
  EXPECT_TRUE(delta->full);
  EXPECT_EQ(delta->replay->iteration_ns.back(), 300);
}

// A rank that is about to hear from rank 0 has changed, though its state so far has not.
TEST(Delta, reaches_a_rank_that_passes_a_checkpoint_before_it_is_told) {
  const graph::Graph graph = ThreeRanks();
  ReplayOptions options;
  options.iterations = 1;
  Result<std::unique_ptr<DeltaReplay>> recorded =
      DeltaReplay::Record(graph, options, {.holds_per_checkpoint = 1, .most_work = 1e9});
  ASSERT_TRUE(recorded.ok()) << recorded.status().message();
  EXPECT_EQ((*recorded)->baseline().iteration_ns.front(), 1040);
  Edit edit;
  edit.programs = {{.role = 0, .ranks = {}, .durations = {{.op = 1, .duration_ns = 40}}}};
  const Result<DeltaResult> delta = (*recorded)->Evaluate(edit);
  ASSERT_TRUE(delta.ok()) << delta.status().message();
  EXPECT_FALSE(delta->full);
  EXPECT_EQ(delta->replay->iteration_ns.front(), 80);
}

// Ranks of one role that send to the next and receive from the previous rank in one group.
graph::Graph Ring(uint32_t size) {
  using prism::testing::Kernel;
  prism::testing::TinyOp exchange = prism::testing::Send(0, 0, 10);
  exchange.transfers.push_back(prism::testing::Receive(0, 1, 10).transfers.front());
  const std::vector<prism::testing::TinyOp> ops = {Kernel(0, 100), exchange, Kernel(0, 50),
                                                   exchange, Kernel(0, 7)};
  graph::Graph graph =
      prism::testing::TinyGraph(std::vector<std::vector<prism::testing::TinyOp>>(size, ops));
  graph.cluster.parameters.SetValue("p2p.eager_bytes", 0);
  graph.cluster.gpus_per_node = 8;  // all are alike
  graph.roles.resize(1);
  graph.roles[0].program.peer_slot_count = 2;
  graph.ranks.role.assign(size, 0);
  graph.ranks.peer_ids.clear();
  for (uint32_t rank = 0; rank < size; ++rank) {
    graph.ranks.peer_ids.push_back((rank + 1) % size);
    graph.ranks.peer_ids.push_back((rank + size - 1) % size);
    graph.ranks.peer_begin[rank + 1] = 2 * (rank + 1);
  }
  return graph;
}

// A rank is woken for one of its two ends of a meeting; ranks that receive the same at one end
// receive different things at the other.
TEST(Delta, reaches_round_a_ring_of_one_role) {
  for (const uint32_t size : {5U, 6U, 7U}) {
    const graph::Graph graph = Ring(size);
    Result<std::unique_ptr<DeltaReplay>> recorded =
        DeltaReplay::Record(graph, {}, {.holds_per_checkpoint = 1, .most_work = 1e9});
    ASSERT_TRUE(recorded.ok()) << recorded.status().message();
    for (const std::vector<Rank>& ranks :
         {std::vector<Rank>{Rank(0)}, {Rank(0), Rank(2)}, {Rank(0), Rank(2), Rank(3)}}) {
      Edit edit;
      edit.programs = {{0, ranks, {{.op = 0, .duration_ns = 1000}, {.op = 2, .duration_ns = 1}}}};
      const Result<DeltaResult> delta = (*recorded)->Evaluate(edit);
      ASSERT_TRUE(delta.ok()) << delta.status().message();
      EXPECT_FALSE(delta->full);
      CompareWithFull(graph, {}, edit, *delta);
    }
  }
}

// Ranks 0 and 1 have one role, 2 and 3 another; 0 meets 2, 1 meets 3, and 0 meets 1 in the same
// NCCL group. The first two begin to differ when their own meeting has already ended for both.
TEST(Delta, splits_ranks_that_have_met_among_themselves) {
  using prism::testing::Collective;
  using prism::testing::Kernel;
  prism::testing::TinyOp grouped = Collective(0, 0, 10);
  grouped.flags = graph::kGroupedWithNext;
  const std::vector<prism::testing::TinyOp> both = {Kernel(0, 100), grouped, Collective(0, 1, 500),
                                                    Kernel(0, 50)};
  const std::vector<prism::testing::TinyOp> one = {Kernel(0, 100), Collective(0, 0, 10),
                                                   Kernel(0, 50)};
  graph::Graph graph = prism::testing::TinyGraph({both, both, one, one});
  graph.cluster.gpus_per_node = 8;
  graph.roles = {graph.roles[0], graph.roles[2]};
  graph.roles[0].program.comm_slot_count = 2;
  for (graph::Role& role : graph.roles) {
    role.program.peer_slot_count = 0;
  }
  graph.ranks.role = {0, 0, 1, 1};
  graph.ranks.peer_ids.clear();
  graph.ranks.peer_begin.assign(5, 0);
  graph.ranks.comm_ids = {0, 2, 1, 2, 0, 1};
  graph.ranks.comm_begin = {0, 2, 4, 5, 6};
  graph.communicators.name = {2, 2, 2};
  graph.communicators.members = {0, 2, 1, 3, 0, 1};
  graph.communicators.begin = {0, 2, 4, 6};
  Result<std::unique_ptr<DeltaReplay>> recorded =
      DeltaReplay::Record(graph, {}, {.holds_per_checkpoint = 1, .most_work = 1e9});
  ASSERT_TRUE(recorded.ok()) << recorded.status().message();
  Edit edit;
  edit.programs = {{0, {}, {{.op = 0, .duration_ns = 200}}},
                   {1, {Rank(2)}, {{.op = 0, .duration_ns = 900}}}};
  const Result<DeltaResult> delta = (*recorded)->Evaluate(edit);
  ASSERT_TRUE(delta.ok()) << delta.status().message();
  EXPECT_FALSE(delta->full);
  CompareWithFull(graph, {}, edit, *delta);
}

}  // namespace
}  // namespace prism::replayer
