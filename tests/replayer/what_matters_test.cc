// Every answer against a replay of a graph in which the durations are changed one by one, on random
// graphs; and graphs whose iterations can be computed by hand.
#include "replayer/what_matters.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "graph/describe.h"
#include "replayer/cost/compute_cost.h"
#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"
#include "tests/support/random_graph.h"
#include "tests/support/test_parameters.h"
#include "tests/support/tiny_graph.h"

namespace prism::replayer {
namespace {

using graph::OpKind;
using prism::testing::Collective;
using prism::testing::Kernel;
using prism::testing::TinyGraph;

// Transfers have fixed durations, so that a test can multiply them, and links are alike.
graph::Graph DrawGraph(uint64_t seed) {
  graph::Graph graph = prism::testing::RandomGraph(prism::testing::RandomOptions(seed));
  graph.cluster = prism::testing::TestCluster();
  graph.cluster.gpus_per_node = seed % 2 == 0 ? 1 : 64;
  for (size_t r = 0; r < graph.roles.size(); ++r) {
    graph.roles[r].name = fmt::format("role {}", r);
    graph.roles[r].stage = static_cast<int32_t>(r % 2);
    graph::Program& program = graph.roles[r].program;
    for (uint32_t op = 0; op < program.size(); ++op) {
      const bool collective = program.kind[op] == OpKind::kCollective;
      if (collective || program.kind[op] == OpKind::kPeerGroup) {
        program.flags[op] |= graph::kDurationFixed;
        program.value.Set(op, collective ? 3001 + 17 * program.signature[op] : 2003);
      }
    }
  }
  return graph;
}

// A role for each rank.
graph::Graph WithOwnRoles(graph::Graph graph) {
  std::vector<graph::Role> roles;
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    roles.push_back(graph.role_of(Rank(rank)));
    roles.back().representative = Rank(rank);
    graph.ranks.role[rank] = rank;
  }
  graph.roles = std::move(roles);
  return graph;
}

struct PlacedOp {
  const graph::Graph& graph;
  Rank rank;
  uint32_t op = 0;

  [[nodiscard]] const graph::Program& program() const { return graph.role_of(rank).program; }
  [[nodiscard]] bool Is(OpKind kind) const { return program().kind[op] == kind; }
};

// The communicator of a collective or of sends and receives.
CommId CommunicatorOf(const PlacedOp& at) {
  const graph::Program& program = at.program();
  const uint16_t slot =
      at.Is(OpKind::kCollective)
          ? program.comm_slot[at.op]
          : program.peer_groups[program.signature[at.op]].transfers.front().comm_slot;
  return CommId(at.graph.ranks.comms(at.rank)[slot]);
}

bool TransferBelongs(const PlacedOp& at, const JobPart& part) {
  const CommId comm = CommunicatorOf(at);
  const auto members = at.graph.communicators.members_of(comm);
  const std::string& name = at.graph.string(StringId(at.graph.communicators.name[comm.value()]));
  switch (part.kind) {
    case PartKind::kCommunicators:
      return part.name == name;
    case PartKind::kCommunicator:
      return part.name == fmt::format("{} of ranks {}", name, graph::MembersText(members));
    default:
      return part.kind == PartKind::kLink && members.size() > 1;  // there is one kind of link
  }
}

bool WorkBelongs(const PlacedOp& at, const std::string& layer, const JobPart& part) {
  const bool kernel = at.Is(OpKind::kKernel);
  const graph::KernelSignature* signature =
      kernel ? &at.graph.signatures[at.program().signature[at.op]] : nullptr;
  const bool fixed = (at.program().flags[at.op] & graph::kDurationFixed) != 0;
  switch (part.kind) {
    case PartKind::kFamily:
      return part.name == (!kernel ? std::string("copy")
                           : fixed
                               ? "fixed"
                               : ComputeCost(at.graph.cluster).Kernel(at.graph, *signature).rule);
    case PartKind::kKernel:
      return kernel && part.name == graph::WithoutTemplates(at.graph.string(signature->name));
    case PartKind::kLayer:
      return part.name == layer;
    case PartKind::kStage:
      return part.name == std::to_string(at.graph.role_of(at.rank).stage);
    default:
      return part.kind == PartKind::kRole && part.name == at.graph.role_of(at.rank).name;
  }
}

DurationNs DurationOf(const PlacedOp& at, const ComputeCost& cost) {
  const graph::Program& program = at.program();
  if ((program.flags[at.op] & graph::kDurationFixed) != 0) {
    return program.value[at.op];
  }
  return at.Is(OpKind::kKernel)
             ? cost.Kernel(at.graph, at.graph.signatures[program.signature[at.op]]).duration_ns
         : at.Is(OpKind::kMemcpy) ? cost.Copy(program.value[at.op], program.flags[at.op])
                                  : cost.Memset(program.value[at.op]);
}

// The graph, of a role for each rank, in which everything that belongs to the part takes 0.9 times
// as long as in `graph`.
graph::Graph Faster(const graph::Graph& graph, const JobPart& part, ReplayOptions* options) {
  graph::Graph faster = graph;
  const ComputeCost cost(graph.cluster);
  for (uint32_t rank = 0; rank < graph.ranks.size(); ++rank) {
    graph::Program& program = faster.roles[rank].program;
    const bool host = part.kind == PartKind::kHost &&
                      part.name == fmt::format("stage {}", graph.role_of(Rank(rank)).stage);
    if (host) {
      options->perturbations.push_back({PerturbationKind::kHost, {Rank(rank)}, 0.9});
    }
    std::vector<std::string> layers = {""};
    for (uint32_t op = 0; op < program.size(); ++op) {
      const PlacedOp at = {graph, Rank(rank), op};
      bool belongs = false;
      if (at.Is(OpKind::kMarker)) {
        const std::string& name = graph.strings[program.signature[op]];
        const bool begins = (program.flags[op] & graph::kMarkerBegin) != 0;
        if (name.starts_with("layer") && begins) {
          layers.push_back(name);
        } else if (name.starts_with("layer") && layers.size() > 1) {
          layers.pop_back();
        }
      } else if (at.Is(OpKind::kCollective) || at.Is(OpKind::kPeerGroup)) {
        belongs = TransferBelongs(at, part);
      } else if (at.Is(OpKind::kHostGap)) {
        belongs = host;
      } else if (at.Is(OpKind::kKernel) || at.Is(OpKind::kMemcpy) || at.Is(OpKind::kMemset)) {
        belongs = WorkBelongs(at, layers.back(), part);
      }
      if (belongs) {
        const DurationNs duration =
            at.Is(OpKind::kHostGap) ? program.value[op] : DurationOf(at, cost);
        if (!at.Is(OpKind::kHostGap)) {
          program.flags[op] |= graph::kDurationFixed;
        }
        program.value.Set(op, std::llround(0.9 * static_cast<double>(duration)));
      }
    }
  }
  return faster;
}

TEST(WhatMatters, is_what_replays_of_changed_graphs_say) {
  std::vector<int> compared(kPartKinds);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const graph::Graph graph = DrawGraph(seed);
    const graph::Graph apart = WithOwnRoles(graph);
    ReplayOptions options;
    options.iterations = 1 + static_cast<int32_t>(seed % 3);
    options.threads = 2;
    if (seed % 4 == 0) {
      options.perturbations.push_back({PerturbationKind::kStraggler, {Rank(0)}, 1.3});
    }
    const Result<WhatMatters> matters = FindWhatMatters(graph, options);
    ASSERT_TRUE(matters.ok()) << matters.status().message();
    for (const FasterPart& one : matters->parts) {
      ReplayOptions changed = options;
      const Result<ReplayResult> replay = Replay(Faster(apart, one.part, &changed), changed);
      ASSERT_TRUE(replay.ok()) << replay.status().message();
      EXPECT_EQ(one.iteration_ns, replay->steady_iteration_ns())
          << "seed " << seed << ", " << PartKindName(one.part.kind) << " " << one.part.name;
      EXPECT_EQ(one.saved_ns, matters->iteration_ns - one.iteration_ns);
      ++compared[static_cast<size_t>(one.part.kind)];
    }
  }
  for (size_t kind = 0; kind < kPartKinds; ++kind) {
    EXPECT_GT(compared[kind], 20) << PartKindName(static_cast<PartKind>(kind));
  }
}

const FasterPart& PartNamed(const WhatMatters& matters, PartKind kind, const std::string& name) {
  return *std::ranges::find_if(matters.parts, [&](const FasterPart& one) {
    return one.part.kind == kind && one.part.name == name;
  });
}

// Two stages that meet in a collective of 300 ns, after 1000 and 400 ns.
TEST(WhatMatters, shows_where_faster_changes_nothing) {
  const graph::Graph graph = TinyGraph(
      {{Kernel(0, 1000), Collective(0, 0, 300)}, {Kernel(0, 400), Collective(0, 0, 300)}});
  const Result<WhatMatters> matters = FindWhatMatters(graph, {});
  ASSERT_TRUE(matters.ok()) << matters.status().message();
  EXPECT_EQ(matters->iteration_ns, 1300);
  const FasterPart& slow = PartNamed(*matters, PartKind::kStage, "0");
  EXPECT_EQ(slow.part.busy_ns, 1000);
  EXPECT_EQ(slow.saved_ns, 100);
  EXPECT_DOUBLE_EQ(slow.share, 1);
  EXPECT_EQ(PartNamed(*matters, PartKind::kStage, "1").saved_ns, 0);
  EXPECT_EQ(PartNamed(*matters, PartKind::kCommunicators, "world").saved_ns, 30);
  EXPECT_EQ(matters->parts.front().saved_ns, 100);
  EXPECT_EQ(matters->parts.back().saved_ns, 0);
}

// Nothing holds the two streams back, so the one with more kernel time counts the iteration: 100 ns
// of stage 0's kernels, or, when these take 90, the 95 ns of the others and their copy.
TEST(WhatMatters, shows_where_faster_harms) {
  graph::Graph graph = TinyGraph({{Kernel(0, 100), Kernel(1, 95), Kernel(1, 20)}});
  graph.strings.emplace_back("slow");
  graph.signatures.push_back(graph.signatures.front());
  graph.signatures.back().name = StringId(3);
  graph::Program& program = graph.roles[0].program;
  program.signature[0] = 1;
  program.kind[2] = OpKind::kMemset;
  program.value.Set(2, 20);
  const Result<WhatMatters> matters = FindWhatMatters(graph, {});
  ASSERT_TRUE(matters.ok()) << matters.status().message();
  EXPECT_EQ(matters->iteration_ns, 100);
  const FasterPart& harms = PartNamed(*matters, PartKind::kKernel, "slow");
  EXPECT_EQ(harms.iteration_ns, 115);
  EXPECT_EQ(harms.saved_ns, -15);
  EXPECT_EQ(matters->parts.back().part.name, "slow");
}

TEST(WhatMatters, is_the_same_for_any_number_of_threads) {
  const graph::Graph graph = DrawGraph(7);
  ReplayOptions options;
  const Result<WhatMatters> one = FindWhatMatters(graph, options);
  options.threads = 4;
  const Result<WhatMatters> four = FindWhatMatters(graph, options);
  ASSERT_TRUE(one.ok() && four.ok());
  ASSERT_EQ(one->parts.size(), four->parts.size());
  for (size_t i = 0; i < one->parts.size(); ++i) {
    EXPECT_EQ(one->parts[i].part.name, four->parts[i].part.name);
    EXPECT_EQ(one->parts[i].iteration_ns, four->parts[i].iteration_ns);
  }
}

TEST(WhatMatters, counts_what_it_leaves_out) {
  const graph::Graph graph = TinyGraph(
      {{Kernel(0, 1000), Collective(0, 0, 300)}, {Kernel(0, 400), Collective(0, 0, 300)}});
  const Result<WhatMatters> all = FindWhatMatters(graph, {});
  const Result<WhatMatters> few = FindWhatMatters(graph, {}, 3);
  ASSERT_TRUE(all.ok() && few.ok());
  EXPECT_EQ(all->left_out, 0);
  EXPECT_EQ(few->parts.size(), 3U);
  EXPECT_EQ(few->left_out, std::ssize(all->parts) - 3);
  for (const FasterPart& one : few->parts) {
    EXPECT_EQ(one.part.busy_ns, 1000);
  }
}

}  // namespace
}  // namespace prism::replayer
