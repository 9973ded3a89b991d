#include "replayer/blame/busy_time.h"

#include <algorithm>
#include <utility>

#include "replayer/engine/replay_options.h"
#include "replayer/replay.h"

namespace prism::replayer {

using graph::OpKind;

Result<BusyTime> BusyTime::Of(const graph::Graph& graph, const ReplayOptions& given, Rank rank) {
  ReplayOptions options = given;
  options.breakdown = false;
  options.traced = {rank};
  PRISM_ASSIGN_OR_RETURN(const ReplayResult result, Replay(graph, options));
  const Timeline& timeline = result.timelines.front();
  const graph::Program& program = graph.role_of(rank).program;
  std::vector<TimeRange> ranges;
  for (size_t i = 0; i < timeline.whole; ++i) {
    switch (program.kind[i % program.size()]) {
      case OpKind::kKernel:
      case OpKind::kMemcpy:
      case OpKind::kMemset:
        ranges.push_back({timeline.start[i], timeline.end[i]});
        break;
      case OpKind::kCollective:
      case OpKind::kPeerGroup:
        ranges.push_back({timeline.transfer_start[i], timeline.end[i]});
        break;
      default:
        break;
    }
  }
  return BusyTime(std::move(ranges));
}

BusyTime::BusyTime(std::vector<TimeRange> ranges) {
  std::ranges::sort(ranges, {}, &TimeRange::begin);
  for (const TimeRange& range : ranges) {
    if (!ranges_.empty() && range.begin <= ranges_.back().end) {
      ranges_.back().end = std::max(ranges_.back().end, range.end);
    } else {
      ranges_.push_back(range);
    }
  }
  DurationNs sum = 0;
  for (const TimeRange& range : ranges_) {
    before_.push_back(sum);
    sum += range.end - range.begin;
  }
}

DurationNs BusyTime::Before(TimeNs time) const {
  const auto after = std::partition_point(ranges_.begin(), ranges_.end(),
                                          [time](const TimeRange& r) { return r.begin < time; });
  if (after == ranges_.begin()) {
    return 0;
  }
  const auto last = static_cast<size_t>(after - ranges_.begin()) - 1;
  return before_[last] + std::min(time, ranges_[last].end) - ranges_[last].begin;
}

}  // namespace prism::replayer
