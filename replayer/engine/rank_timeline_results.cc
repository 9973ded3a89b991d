// The part of RankTimeline that keeps and answers: activity, gates, obstacles, results.
#include <algorithm>

#include "replayer/engine/lane_rows.h"
#include "replayer/engine/rank_timeline.h"

namespace prism::replayer {

// Called when the step is about to be executed.
void RankTimeline::TraceBegin(const StreamCursor& cursor,
                              const Step& step,
                              const IssueTimes& issue) {
  if (!traces_.empty()) {
    traces_.Begin(cursor.iteration, step, issue, cursor.lanes.tail());
  }
}

// Called when the step was executed and waits for nobody.
void RankTimeline::TraceEnd(const StreamCursor& cursor, const Step& step) {
  if (!traces_.empty()) {
    traces_.End(cursor.iteration, step, cursor.lanes.tail());
  }
}

// Sets until_: when the earliest future op could begin, by lane; false if that is unknown. A stream
// that waits for an unrecorded event comes after the stream that records it. `stuck`: the host
// cannot issue anything before a held stream advances, so whatever it has not issued comes after
// that stream.
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
      bound(meetings_->hold(HoldOf(&cursors_[stream])).arrival.data());
      continue;
    }
    if (!steps.empty() && cursor.next == steps.size()) {
      cursor.next = 0;
      ++cursor.iteration;
    }
    if (steps.empty()) {
      continue;
    }
    // After the last step of the first stream, where the iteration ends.
    const Step& step = steps[cursor.next];
    if (cursor.iteration == iterations_ && stream != plan_.first_stream && step.op >= plan_.ahead) {
      continue;
    }
    if (PositionOf(cursor, step) < host_.issued()) {
      const bool waits = step.kind == StepKind::kWait && step.aux != kNone;
      if (waits && !events_[EventIndex(cursor.iteration, step.aux)].recorded) {
        continue;
      }
    } else if (stuck && host_.issued() < host_.limit()) {
      continue;
    }
    const IssueTimes issue = IssueOf(cursor, step);
    MaxRow(cursor.lanes.tail().data(), issue.base, issue.host_ns, next_.data(), lanes_);
    bound(next_.data());
  }
  return bounded;
}

// A host that waits at a gate may let others advance: then nothing is counted.
void RankTimeline::CountActivity(bool stuck) {
  if (config_.gated || host_.limit() < host_.end() || !BoundFuture(stuck)) {
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

void RankTimeline::CountTraffic(const Step& step, const Hold& hold, const Meetings& meetings) {
  // A group's time cannot be divided; it counts for the communicator of its first transfer.
  SlotTraffic* first = nullptr;
  if (step.kind == StepKind::kCollective) {
    for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
      const CollectiveCall& call = plan_.calls[c];
      SlotTraffic& traffic = traffic_[call.comm_slot];
      ++traffic.calls;
      traffic.bytes += plan_.program->collectives[plan_.transfers[call.transfer].shape].bytes;
      if (!meetings.by_network()) {
        AddRow(costs_.transfer_ns[call.transfer], traffic.transfer_ns.data(), lanes_);
      }
    }
    first = &traffic_[plan_.calls[step.aux].comm_slot];
    if (meetings.by_network()) {
      AddSpanRow(hold.start.data(), hold.end.data(), first->transfer_ns.data(), lanes_);
    }
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
  host_.Allow(position);
}

void RankTimeline::InsertHostGap(DurationNs duration_ns) {
  PRISM_CHECK(config_.gated);
  host_.InsertGap(duration_ns);
}

std::optional<TimeNs> RankTimeline::HostTime() const {
  return host_.Time();
}

std::optional<TimeNs> RankTimeline::EndTime(OpPosition position) const {
  PRISM_CHECK(!traces_.empty());
  if (position < 0 || position >= host_.end() || position >= host_.issued()) {
    return std::nullopt;
  }
  const TimeNs end = traces_.EndTime(position);
  return end == OpTraces::kUnknown ? std::nullopt : std::optional(end);
}

std::optional<TimeNs> RankTimeline::IdleTime() const {
  std::optional<TimeNs> idle = HostTime();
  for (uint16_t stream = 0; idle && stream < cursors_.size(); ++stream) {
    idle = Drained(stream) ? std::optional(std::max(*idle, cursors_[stream].lanes.tail()[0]))
                           : std::nullopt;
  }
  return idle;
}

Obstacle RankTimeline::FindObstacle() const {
  Obstacle obstacle;
  if (finished()) {
    return obstacle;
  }
  bool host_waits = host_.issued() < host_.limit();
  for (const StreamCursor& cursor : cursors_) {
    const std::vector<Step>& steps = plan_.streams[static_cast<size_t>(&cursor - cursors_.data())];
    if (cursor.holding) {
      const Step& step = steps[cursor.next];
      bool collective = step.kind == StepKind::kCollective;
      return {collective ? Obstacle::Kind::kCollective : Obstacle::Kind::kPeers,
              PositionOf(cursor, step), host_waits};
    }
  }
  if (host_.issued() == host_.limit() && host_.limit() < host_.end()) {
    obstacle.kind = config_.gated ? Obstacle::Kind::kGate : Obstacle::Kind::kKilled;
    obstacle.position = host_.limit();
    return obstacle;
  }
  obstacle.kind = Obstacle::Kind::kEvent;
  obstacle.position = host_.issued();
  obstacle.host_waits = host_waits;
  return obstacle;
}

// When the iteration begins (RolePlan::first_op); for the one after the last, when it would begin.
TimeNs RankTimeline::IterationStart(int32_t iteration, uint32_t lane) const {
  if (iteration < iterations_ && plan_.first_op != kNone) {
    return starts_[static_cast<size_t>(iteration)][lane];
  }
  OpPosition first = OpPosition{iteration} * plan_.size();
  if (plan_.first_op == kNone) {
    return host_.SegmentAt(first).base[lane] + iteration * plan_.iteration_host_ns();
  }
  return plan_.NextStart(iteration, host_.current().base[lane],
                         cursors_[plan_.first_stream].lanes.tail()[lane]);
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

}  // namespace prism::replayer
