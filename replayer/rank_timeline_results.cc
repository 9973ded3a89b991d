// The part of RankTimeline that keeps and answers: traces, gates, obstacles, results.
#include <algorithm>

#include "replayer/rank_timeline.h"

namespace prism::replayer {

using graph::OpKind;

// Ops without a stream happen on the host alone.
void RankTimeline::TraceHostOps(OpPosition begin, OpPosition end) {
  if (!config_.traced) {
    return;
  }
  for (OpPosition position = begin; position < end; ++position) {
    auto op = static_cast<size_t>(position % plan_.size());
    OpKind kind = plan_.program->kind[op];
    TimeNs time = segments_.back().base + CumulativeHost(position);
    auto index = static_cast<size_t>(position);
    trace_.issue[index] = time;
    if (kind == OpKind::kHostGap) {
      trace_.start[index] = time - plan_.program->value[op];
      trace_.end[index] = time;
    } else if (kind == OpKind::kMarker || kind == OpKind::kSegmentAlloc ||
               kind == OpKind::kSegmentFree || kind == OpKind::kEventSync) {
      trace_.start[index] = time;
      trace_.end[index] = time;
    }
  }
}

void RankTimeline::TraceStep(const StreamCursor& cursor,
                             const Step& step,
                             TimeNs issue,
                             TimeNs start) {
  if (!config_.traced) {
    return;
  }
  OpPosition origin = PositionOf(cursor, step) - step.op;
  auto enter = [&](uint32_t op) {
    auto index = static_cast<size_t>(origin + op);
    trace_.issue[index] = issue;
    trace_.start[index] = start;
    trace_.end[index] = cursor.tail;
  };
  if (step.kind != StepKind::kCollective) {
    enter(step.op);
    return;
  }
  for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
    enter(plan_.calls[c].op);
  }
}

void RankTimeline::TraceHold(const StreamCursor& cursor, const Step& step, const Hold& hold) {
  if (!config_.traced) {
    return;
  }
  OpPosition origin = PositionOf(cursor, step) - step.op;
  auto enter = [&](uint32_t op) {
    auto index = static_cast<size_t>(origin + op);
    trace_.transfer_start[index] = hold.start;
    trace_.end[index] = hold.end;
  };
  if (step.kind != StepKind::kCollective) {
    enter(step.op);
    return;
  }
  for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
    enter(plan_.calls[c].op);
  }
}

void RankTimeline::Issue(OpPosition position) {
  PRISM_CHECK(config_.gated);
  OpPosition bound = end_;
  if (rank_class_.effect.kill_iteration >= 0) {
    bound = std::min(bound, OpPosition{rank_class_.effect.kill_iteration} * plan_.size());
  }
  limit_ = std::max(limit_, std::min(position, bound));
}

void RankTimeline::InsertHostGap(DurationNs duration_ns) {
  PRISM_CHECK(config_.gated);
  gaps_.push_back({limit_, duration_ns});
}

std::optional<TimeNs> RankTimeline::HostTime() const {
  if (frontier_ < limit_ || !gaps_.empty()) {
    return std::nullopt;
  }
  return HostTimeAt(frontier_);
}

// Host time when everything before `position` has been issued, position being the frontier.
TimeNs RankTimeline::HostTimeAt(OpPosition position) const {
  return segments_.back().base + (position > 0 ? CumulativeHost(position - 1) : 0);
}

std::optional<TimeNs> RankTimeline::EndTime(OpPosition position) const {
  PRISM_CHECK(config_.traced);
  if (position < 0 || position >= end_ || position >= frontier_) {
    return std::nullopt;
  }
  auto op = static_cast<size_t>(position % plan_.size());
  OpKind kind = plan_.program->kind[op];
  bool transfers = kind == OpKind::kCollective || kind == OpKind::kPeerGroup;
  auto index = static_cast<size_t>(position);
  // A collective's end is entered when its stream goes on; until then it reads as its arrival.
  if (trace_.end[index] == kUnknown || (transfers && trace_.transfer_start[index] == kUnknown)) {
    return std::nullopt;
  }
  return trace_.end[index];
}

Obstacle RankTimeline::FindObstacle() const {
  Obstacle obstacle;
  if (finished()) {
    return obstacle;
  }
  bool host_waits = frontier_ < limit_;
  for (const StreamCursor& cursor : cursors_) {
    const std::vector<Step>& steps = plan_.streams[static_cast<size_t>(&cursor - cursors_.data())];
    if (cursor.holding) {
      const Step& step = steps[cursor.next];
      bool collective = step.kind == StepKind::kCollective;
      return {collective ? Obstacle::Kind::kCollective : Obstacle::Kind::kPeers,
              PositionOf(cursor, step), host_waits};
    }
  }
  if (frontier_ == limit_ && limit_ < end_) {
    obstacle.kind = config_.gated ? Obstacle::Kind::kGate : Obstacle::Kind::kKilled;
    obstacle.position = limit_;
    return obstacle;
  }
  obstacle.kind = Obstacle::Kind::kEvent;
  obstacle.position = frontier_;
  obstacle.host_waits = host_waits;
  return obstacle;
}

// When the rank's first op that has a stream begins there; `iteration` may be the one behind the
// last, where it is when that op would begin.
TimeNs RankTimeline::IterationStart(int32_t iteration) const {
  if (iteration < iterations_ && plan_.first_op != kNone) {
    return starts_[static_cast<size_t>(iteration)];
  }
  OpPosition first = OpPosition{iteration} * plan_.size();
  if (plan_.first_op == kNone) {
    auto after =
        std::upper_bound(segments_.begin(), segments_.end(), first,
                         [](OpPosition position, const Segment& s) { return position < s.begin; });
    return std::prev(after)->base + iteration * plan_.iteration_host_ns();
  }
  TimeNs issue = segments_.back().base + CumulativeHost(first + plan_.first_op);
  return std::max(issue, cursors_[plan_.first_stream].tail);
}

DurationNs RankTimeline::IterationNs(int32_t iteration) const {
  return IterationStart(iteration + 1) - IterationStart(iteration);
}

RankTimes RankTimeline::Times() const {
  Activity activity = activity_;
  for (const StreamCursor& cursor : cursors_) {
    activity.compute.insert(activity.compute.end(), cursor.compute.begin(), cursor.compute.end());
  }
  return BreakDown(activity, {IterationStart(iterations_ - 1), IterationStart(iterations_)});
}

}  // namespace prism::replayer
