#include "replayer/report/rank_activity.h"

#include <algorithm>
#include <array>

namespace prism::replayer {
namespace {

using graph::OpKind;

// Whether the communicator has members in several pipeline stages.
bool SpansStages(const graph::Graph& graph, CommId comm) {
  const auto members = graph.communicators.members_of(comm);
  const int32_t stage = graph.role_of(Rank(members.front())).stage;
  return std::ranges::any_of(
      members, [&](uint32_t member) { return graph.role_of(Rank(member)).stage != stage; });
}

// Whether the group of sends and receives has a peer in another pipeline stage.
bool HasPeerInOtherStage(const graph::Graph& graph, Rank rank, const graph::PeerGroup& group) {
  const auto peers = graph.ranks.peers(rank);
  const int32_t stage = graph.role_of(rank).stage;
  return std::ranges::any_of(group.transfers, [&](const graph::PeerTransfer& transfer) {
    return graph.role_of(Rank(peers[transfer.peer_slot])).stage != stage;
  });
}

Activity ActivityOf(const graph::Graph& graph, const Timeline& timeline) {
  const graph::Program& program = graph.role_of(timeline.rank).program;
  std::vector<bool> spans_stages;
  for (const uint32_t comm : graph.ranks.comms(timeline.rank)) {
    spans_stages.push_back(SpansStages(graph, CommId(comm)));
  }
  Activity activity;
  for (size_t i = 0; i < timeline.end.size(); ++i) {
    if (timeline.end[i] < 0) {
      continue;  // never came to it
    }
    const size_t op = i % program.size();
    const OpKind kind = program.kind[op];
    if (kind == OpKind::kKernel || kind == OpKind::kMemcpy || kind == OpKind::kMemset) {
      activity.compute.push_back({timeline.start[i], timeline.end[i]});
    } else if (kind == OpKind::kCollective || kind == OpKind::kPeerGroup) {
      activity.transfer.push_back({timeline.transfer_start[i], timeline.end[i]});
      const bool waits_for_stage =
          kind == OpKind::kPeerGroup
              ? HasPeerInOtherStage(graph, timeline.rank,
                                    program.peer_groups[program.signature[op]])
              : spans_stages[program.comm_slot[op]];
      if (waits_for_stage) {
        activity.peer_wait.push_back({timeline.start[i], timeline.transfer_start[i]});
      }
    }
  }
  return activity;
}

// Where a range of a kind begins (+1) or ends (-1).
struct Edge {
  TimeNs time = 0;
  SpanKind kind = SpanKind::kIdle;
  int32_t change = 0;
};

void AddEdges(const std::vector<TimeRange>& ranges,
              SpanKind kind,
              TimeRange window,
              std::vector<Edge>* edges) {
  for (const TimeRange& range : ranges) {
    const TimeNs begin = std::max(range.begin, window.begin);
    const TimeNs end = std::min(range.end, window.end);
    if (begin < end) {
      edges->push_back({begin, kind, 1});
      edges->push_back({end, kind, -1});
    }
  }
}

}  // namespace

std::vector<ActivitySpan> SteadyActivity(const graph::Graph& graph,
                                         const Timeline& timeline,
                                         const RankTimes& times) {
  const TimeRange window = {timeline.steady_begin, timeline.steady_begin + times.iteration_ns};
  const Activity activity = ActivityOf(graph, timeline);
  std::vector<Edge> edges;
  AddEdges(activity.compute, SpanKind::kCompute, window, &edges);
  AddEdges(activity.transfer, SpanKind::kExposedComm, window, &edges);
  AddEdges(activity.peer_wait, SpanKind::kBubble, window, &edges);
  std::ranges::stable_sort(edges, {}, &Edge::time);
  edges.push_back({window.end, SpanKind::kIdle, 0});

  std::vector<ActivitySpan> spans;
  std::array<int32_t, kSpanKinds> open = {0, 0, 0, 1};  // idle holds always
  TimeNs now = window.begin;
  for (const Edge& edge : edges) {
    if (edge.time > now) {
      const auto first = std::ranges::find_if(open, [](int32_t count) { return count > 0; });
      const auto kind = static_cast<SpanKind>(first - open.begin());
      if (!spans.empty() && spans.back().kind == kind) {
        spans.back().end = edge.time;
      } else {
        spans.push_back({now, edge.time, kind});
      }
      now = edge.time;
    }
    open[static_cast<size_t>(edge.kind)] += edge.change;
  }
  return spans;
}

}  // namespace prism::replayer
