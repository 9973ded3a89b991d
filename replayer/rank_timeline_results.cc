// The part of RankTimeline that keeps and answers: traces, gates, obstacles, results.
#include <algorithm>
#include <limits>

#include "replayer/lane_rows.h"
#include "replayer/rank_timeline.h"

namespace prism::replayer {

using graph::OpKind;

// Ops without a stream happen on the host alone.
void RankTimeline::TraceHostOps(OpPosition begin, OpPosition end) {
  for (size_t t = 0; t < traces_.size(); ++t) {
    const TimeNs base = segments_.back().base[config_.traced[t]];
    for (OpPosition position = begin; position < end; ++position) {
      auto op = static_cast<size_t>(position % plan_.size());
      OpKind kind = plan_.program->kind[op];
      TimeNs time = base + CumulativeHost(position);
      auto index = static_cast<size_t>(position);
      traces_[t].issue[index] = time;
      if (kind == OpKind::kHostGap) {
        traces_[t].start[index] = time - plan_.program->value[op];
        traces_[t].end[index] = time;
      } else if (kind == OpKind::kMarker || kind == OpKind::kSegmentAlloc ||
                 kind == OpKind::kSegmentFree || kind == OpKind::kEventSync) {
        traces_[t].start[index] = time;
        traces_[t].end[index] = time;
      }
    }
  }
}

// Calls `enter` with the index into a Timeline of each op of the step.
template <typename Enter>
void RankTimeline::ForEachOp(const StreamCursor& cursor,
                             const Step& step,
                             const Enter& enter) const {
  const OpPosition origin = PositionOf(cursor, step) - step.op;
  if (step.kind != StepKind::kCollective) {
    enter(static_cast<size_t>(origin + step.op));
    return;
  }
  for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
    enter(static_cast<size_t>(origin + plan_.calls[c].op));
  }
}

// The step is about to be executed.
void RankTimeline::TraceBegin(const StreamCursor& cursor, const Step& step) {
  for (size_t t = 0; t < traces_.size(); ++t) {
    const TimeNs issue = IssueOf(cursor, step).of(config_.traced[t]);
    const TimeNs start = std::max(issue, cursor.lanes.tail()[config_.traced[t]]);
    ForEachOp(cursor, step, [&](size_t index) {
      traces_[t].issue[index] = issue;
      traces_[t].start[index] = start;
    });
  }
}

// It was, and waits for nobody.
void RankTimeline::TraceEnd(const StreamCursor& cursor, const Step& step) {
  for (size_t t = 0; t < traces_.size(); ++t) {
    const TimeNs end = cursor.lanes.tail()[config_.traced[t]];
    ForEachOp(cursor, step, [&](size_t index) { traces_[t].end[index] = end; });
  }
}

void RankTimeline::TraceHold(const StreamCursor& cursor, const Step& step, const Hold& hold) {
  for (size_t t = 0; t < traces_.size(); ++t) {
    const uint32_t lane = config_.traced[t];
    ForEachOp(cursor, step, [&](size_t index) {
      traces_[t].transfer_start[index] = hold.start[lane];
      traces_[t].end[index] = hold.end[lane];
      if (!traces_[t].decisive.empty()) {
        traces_[t].decisive[index] = hold.decisive[lane];
        traces_[t].last[index] = hold.last[lane];
      }
    });
  }
}

// until_: when the earliest op that is still to come could begin, by lane; false where nobody
// knows. What waits for an event that was not recorded comes behind the stream that records it.
// `stuck`: the host can issue nothing either before a stream that holds goes on, so that what it
// has not issued comes behind that one.
bool RankTimeline::BoundFuture(bool stuck) {
  bool bounded = false;
  const auto bound = [&](const TimeNs* times) {
    if (bounded) {
      MinRow(times, until_.data(), lanes_);
    } else {
      until_.assign(times, times + lanes_);
    }
    bounded = true;
  };
  next_.resize(lanes_);
  for (uint16_t stream = 0; stream < cursors_.size(); ++stream) {
    StreamCursor cursor = cursors_[stream];
    const std::vector<Step>& steps = plan_.streams[stream];
    if (cursor.holding) {
      bound(rendezvous_->hold(HoldOf(&cursors_[stream])).arrival.data());
      continue;
    }
    if (!steps.empty() && cursor.next == steps.size()) {
      cursor.next = 0;
      ++cursor.iteration;
    }
    if (steps.empty() || (cursor.iteration == iterations_ && stream != plan_.first_stream)) {
      continue;
    }
    // Behind the last step of the first stream: where the iteration ends.
    const Step& step = steps[cursor.next];
    if (PositionOf(cursor, step) < frontier_) {
      const bool waits = step.kind == StepKind::kWait && step.aux != kNone;
      if (waits && !events_[EventIndex(cursor.iteration, step.aux)].recorded) {
        continue;
      }
    } else if (stuck && frontier_ < limit_) {
      continue;
    }
    const IssueTimes issue = IssueOf(cursor, step);
    MaxRow(cursor.lanes.tail().data(), issue.base, issue.host_ns, next_.data(), lanes_);
    bound(next_.data());
  }
  return bounded;
}

// A host that stands at a gate may let others go on: then nothing is counted.
void RankTimeline::CountActivity(bool stuck) {
  if (config_.gated || limit_ < end_ || !BoundFuture(stuck)) {
    return;
  }
  for (StreamCursor& cursor : cursors_) {
    cursor.lanes.Flush();
  }
  activity_.CountUntil(until_);
}

void RankTimeline::KeepActivity(const Step& step, Hold* hold) {
  for (size_t i = 0; i < hold->transfer_count; ++i) {
    activity_.Take(ActivityKind::kTransfer, &hold->transfers[i]);
  }
  if (WaitsForStage(*config_.partition, rank_class_, plan_, step) &&
      AnyBefore(hold->arrival.data(), hold->start.data(), 0, lanes_)) {
    LaneRanges& waited = activity_.Add(ActivityKind::kPeerWait);
    std::copy(hold->arrival.begin(), hold->arrival.end(), waited.begin());
    std::copy(hold->start.begin(), hold->start.end(), waited.end());
  }
  if (activity_.ShouldCount()) {
    CountActivity(false);
  }
}

void RankTimeline::CountTraffic(const Step& step, const Hold& hold) {
  // A group's time cannot be divided; it counts for the communicator of its first transfer.
  SlotTraffic* first = nullptr;
  if (step.kind == StepKind::kCollective) {
    for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
      const CollectiveCall& call = plan_.calls[c];
      SlotTraffic& traffic = traffic_[call.comm_slot];
      ++traffic.calls;
      traffic.bytes += plan_.program->collectives[plan_.transfers[call.transfer].shape].bytes;
      AddRow(costs_.transfer_ns[call.transfer], traffic.transfer_ns.data(), lanes_);
    }
    first = &traffic_[plan_.calls[step.aux].comm_slot];
  } else {
    PeerPosts posts = plan_.groups[step.aux];
    for (uint32_t p = posts.begin; p < posts.end; ++p) {
      SlotTraffic& traffic = traffic_[plan_.endpoints[plan_.posts[p].endpoint].comm_slot];
      ++traffic.calls;
      traffic.bytes += plan_.posts[p].bytes;
      first = first == nullptr ? &traffic : first;
    }
    if (first != nullptr) {
      AddSpanRow(hold.start.data(), hold.end.data(), first->transfer_ns.data(), lanes_);
    }
  }
  if (first != nullptr) {
    AddSpanRow(hold.arrival.data(), hold.start.data(), first->wait_ns.data(), lanes_);
  }
}

void RankTimeline::Issue(OpPosition position) {
  PRISM_CHECK(config_.gated);
  OpPosition bound = end_;
  if (rank_class_.kill_iteration >= 0) {
    bound = std::min(bound, OpPosition{rank_class_.kill_iteration} * plan_.size());
  }
  limit_ = std::max(limit_, std::min(position, bound));
}

void RankTimeline::InsertHostGap(DurationNs duration_ns) {
  PRISM_CHECK(config_.gated);
  AddGap({limit_, duration_ns});
}

std::optional<TimeNs> RankTimeline::HostTime() const {
  if (frontier_ < limit_ || (!gaps_.empty() && gaps_.front().position <= frontier_)) {
    return std::nullopt;
  }
  return segments_.back().base[0] + (frontier_ > 0 ? CumulativeHost(frontier_ - 1) : 0);
}

std::optional<TimeNs> RankTimeline::EndTime(OpPosition position) const {
  PRISM_CHECK(!traces_.empty());
  if (position < 0 || position >= end_ || position >= frontier_) {
    return std::nullopt;
  }
  const TimeNs end = traces_.front().end[static_cast<size_t>(position)];
  return end == kUnknown ? std::nullopt : std::optional(end);
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
TimeNs RankTimeline::IterationStart(int32_t iteration, uint32_t lane) const {
  if (iteration < iterations_ && plan_.first_op != kNone) {
    return starts_[static_cast<size_t>(iteration)][lane];
  }
  OpPosition first = OpPosition{iteration} * plan_.size();
  if (plan_.first_op == kNone) {
    auto after =
        std::upper_bound(segments_.begin(), segments_.end(), first,
                         [](OpPosition position, const Segment& s) { return position < s.begin; });
    return std::prev(after)->base[lane] + iteration * plan_.iteration_host_ns();
  }
  TimeNs issue = segments_.back().base[lane] + CumulativeHost(first + plan_.first_op);
  return std::max(issue, cursors_[plan_.first_stream].lanes.tail()[lane]);
}

DurationNs RankTimeline::IterationNs(int32_t iteration, uint32_t lane) const {
  return IterationStart(iteration + 1, lane) - IterationStart(iteration, lane);
}

std::vector<RankTimes> RankTimeline::Times() {
  for (StreamCursor& cursor : cursors_) {
    cursor.lanes.Flush();
  }
  std::vector<TimeNs> begin;
  std::vector<TimeNs> end;
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    begin.push_back(IterationStart(iterations_ - 1, lane));
    end.push_back(IterationStart(iterations_, lane));
  }
  return activity_.Finish(begin, end);
}

const Timeline& RankTimeline::TraceOf(uint32_t lane) const {
  const auto found = std::find(config_.traced.begin(), config_.traced.end(), lane);
  return traces_[static_cast<size_t>(found - config_.traced.begin())];
}

}  // namespace prism::replayer
