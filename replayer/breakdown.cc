#include "replayer/breakdown.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace prism::replayer {
namespace {

constexpr size_t kKinds = 3;  // in order of precedence

struct Edge {
  TimeNs time;
  int32_t delta;
  uint32_t kind;
};

void AddEdges(const std::vector<TimeRange>& ranges,
              uint32_t kind,
              TimeRange window,
              std::vector<Edge>* edges) {
  for (const TimeRange& range : ranges) {
    TimeNs begin = std::max(range.begin, window.begin);
    TimeNs end = std::min(range.end, window.end);
    if (begin < end) {
      edges->push_back({begin, 1, kind});
      edges->push_back({end, -1, kind});
    }
  }
}

}  // namespace

RankTimes BreakDown(const Activity& activity, TimeRange window) {
  std::vector<Edge> edges;
  AddEdges(activity.compute, 0, window, &edges);
  AddEdges(activity.transfer, 1, window, &edges);
  AddEdges(activity.peer_wait, 2, window, &edges);
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return a.time < b.time; });
  std::array<int32_t, kKinds> active = {};
  std::array<DurationNs, kKinds + 1> spent = {};
  TimeNs now = window.begin;
  auto advance = [&](TimeNs to) {
    size_t kind = 0;
    while (kind < kKinds && active[kind] == 0) {
      ++kind;
    }
    spent[kind] += to - now;
    now = to;
  };
  for (const Edge& edge : edges) {
    advance(edge.time);
    active[edge.kind] += edge.delta;
  }
  advance(window.end);
  RankTimes times;
  times.iteration_ns = window.end - window.begin;
  times.compute_ns = spent[0];
  times.exposed_comm_ns = spent[1];
  times.bubble_ns = spent[2];
  times.idle_ns = spent[3];
  return times;
}

}  // namespace prism::replayer
