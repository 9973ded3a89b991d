#include "tests/support/simple_links.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "replayer/engine/replay_options.h"
#include "replayer/perturb/perturbation.h"

namespace prism::testing {
namespace {

// The time of a channel for each peer in another node after its first.
DurationNs RoundsOf(const graph::ClusterSpec& cluster, int64_t peers) {
  constexpr double kRoundNs = 2700;
  const double channels = cluster.parameters.Value("nccl.channels.collective");
  return std::llround(std::max(0.0, static_cast<double>(peers) - channels) / channels * kRoundNs);
}

// The groups that run beside that of `op`, itself included.
std::vector<uint32_t> BatchOf(const graph::Program& program, uint32_t op) {
  using graph::OpKind;
  std::vector<uint32_t> batch;
  uint32_t begin = 0;
  for (uint32_t i = 0; i < program.size(); ++i) {
    const OpKind kind = program.kind[i];
    const bool same_stream = std::ranges::any_of(
        batch, [&](uint32_t other) { return program.stream[other] == program.stream[i]; });
    const uint32_t dep = program.dep[i];
    const bool goes_on = kind == OpKind::kEventRecord || kind == OpKind::kMarker ||
                         (kind == OpKind::kEventWait && (dep == graph::kNoDep || dep < begin)) ||
                         (kind == OpKind::kPeerGroup && !same_stream);
    if (!goes_on && i > op) {
      break;
    }
    if (!goes_on) {
      batch.clear();
      begin = i;
    }
    if (kind == OpKind::kPeerGroup) {
      batch.push_back(i);
    }
  }
  return batch;
}

}  // namespace

DurationNs ShareOfLink(const LinkEnd& end, uint32_t op, const graph::PeerTransfer& mine) {
  const graph::Program& program = end.graph.role_of(end.rank).program;
  const graph::PeerGroup& group = program.peer_groups[program.signature[op]];
  const auto peer_of = [&](const graph::PeerTransfer& t) {
    return end.graph.ranks.peers(end.rank)[t.peer_slot];
  };
  const auto on_node = [&](const graph::PeerTransfer& t) {
    const auto per_node = static_cast<uint32_t>(end.graph.cluster.gpus_per_node);
    return peer_of(t) / per_node == end.rank.value() / per_node;
  };
  const auto is_self = [&](const graph::PeerTransfer& t) { return peer_of(t) == end.rank.value(); };
  int64_t bytes = mine.bytes;
  for (const uint32_t beside : BatchOf(program, op)) {
    for (const graph::PeerTransfer& other :
         program.peer_groups[program.signature[beside]].transfers) {
      const bool is_mine = beside == op && &other == &mine;
      const bool shares = !is_mine && other.is_send == mine.is_send && !is_self(mine) &&
                          !is_self(other) && (on_node(mine) ? on_node(other) : beside == op);
      bytes += shares ? std::min(other.bytes, mine.bytes) : 0;
    }
  }
  const bool leaves = !is_self(mine) && !on_node(mine);
  const auto beside =
      std::count_if(group.transfers.begin(), group.transfers.end(), [&](const auto& other) {
        return other.is_send == mine.is_send && !is_self(other) && !on_node(other);
      });
  return end.cost.PeerTransfer(bytes, on_node(mine)) +
         (leaves ? RoundsOf(end.graph.cluster, beside) : 0);
}

double SlowestOfPairs(const graph::Graph& graph,
                      const replayer::ReplayOptions& options,
                      std::span<const uint32_t> ranks) {
  double slowest = 1;
  for (const uint32_t a : ranks) {
    for (const uint32_t b : ranks) {
      slowest = std::max(slowest, SlowestOfRing(graph, options, {{a, b}}));
    }
  }
  return slowest;
}

double SlowestOfRing(const graph::Graph& graph,
                     const replayer::ReplayOptions& options,
                     std::span<const uint32_t> ranks) {
  std::vector<int32_t> nodes;
  for (uint32_t rank : ranks) {
    const auto node = static_cast<int32_t>(rank) / graph.cluster.gpus_per_node;
    if (nodes.empty() || nodes.back() != node) {
      nodes.push_back(node);
    }
  }
  double slowest = 1;
  for (const replayer::Perturbation& p : options.perturbations) {
    for (size_t i = 0; p.kind == replayer::PerturbationKind::kLink && i < nodes.size(); ++i) {
      const int32_t next = nodes[(i + 1) % nodes.size()];
      if (std::minmax(nodes[i], next) == std::minmax(p.node_a, p.node_b)) {
        slowest = std::max(slowest, p.factor);
      }
    }
  }
  return slowest;
}

DurationNs Slowed(DurationNs duration, double factor) {
  return factor == 1 ? duration : std::llround(static_cast<double>(duration) * factor);
}

}  // namespace prism::testing
