#include "replayer/rank_timeline.h"

#include <algorithm>
#include <cmath>

#include "replayer/jitter.h"

namespace prism::replayer {

using graph::OpKind;

RankTimeline::RankTimeline(const Config& config)
    : config_(config),
      rank_class_(config.partition->classes[config.class_index]),
      plan_(config.partition->plans[rank_class_.plan]),
      iterations_(config.options->iterations),
      end_(OpPosition{iterations_} * plan_.size()),
      limit_(end_),
      cursors_(plan_.streams.size()),
      events_(size_t{plan_.event_count} * static_cast<size_t>(iterations_), kUnknown),
      starts_(static_cast<size_t>(iterations_), kUnknown),
      traffic_(rank_class_.comms.size()) {
  if (rank_class_.effect.kill_iteration >= 0) {
    limit_ = std::min(end_, OpPosition{rank_class_.effect.kill_iteration} * plan_.size());
  }
  if (config.gated) {
    limit_ = 0;
  }
  segments_.push_back({0, rank_class_.effect.delay_ns});
  if (config.traced) {
    auto ops = static_cast<size_t>(end_);
    trace_.rank = rank_class_.representative;
    trace_.issue.assign(ops, kUnknown);
    trace_.start.assign(ops, kUnknown);
    trace_.transfer_start.assign(ops, kUnknown);
    trace_.end.assign(ops, kUnknown);
  }
  CostTransfers();
}

void RankTimeline::CostTransfers() {
  const CollectiveCost& cost = *config_.collective_cost;
  auto scaled = [this](DurationNs duration, double factor) {
    factor *= config_.options->comm_scale;
    return factor == 1 ? duration : std::llround(static_cast<double>(duration) * factor);
  };
  for (const TransferKind& kind : plan_.transfers) {
    const CommClass& comm =
        config_.partition->comm_classes[rank_class_.comms[kind.comm_slot].comm_class];
    if (kind.fixed_ns >= 0) {
      transfer_ns_.push_back(scaled(kind.fixed_ns, comm.topology.slow_factor));
    } else {
      transfer_ns_.push_back(
          scaled(cost.Collective(plan_.program->collectives[kind.shape], comm.topology), 1));
    }
  }
  for (const CollectiveCall& call : plan_.calls) {
    DurationNs before = call.previous_on_slot == kNone ? 0 : call_ns_[call.previous_on_slot];
    call_ns_.push_back(before + transfer_ns_[call.transfer]);
  }
  for (const PeerPost& post : plan_.posts) {
    const ChannelEnd& channel = rank_class_.channels[post.endpoint];
    DurationNs duration =
        post.fixed_ns >= 0 ? post.fixed_ns : cost.PeerTransfer(post.bytes, channel.same_node);
    post_ns_.push_back(scaled(duration, channel.slow_factor));
  }
  charge_ns_.resize(plan_.charge_count);
  for (const ChargeSource& source : plan_.charge_sources) {
    DurationNs beside = std::min(transfer_ns_[source.transfer], source.compute_ns);
    charge_ns_[source.charge] +=
        std::llround((config_.overlap_slowdown - 1) * static_cast<double>(beside));
  }
}

DurationNs RankTimeline::CumulativeHost(OpPosition position) const {
  OpPosition n = plan_.size();
  return (position / n) * plan_.iteration_host_ns() +
         plan_.host_ns[static_cast<size_t>(position % n)];
}

size_t RankTimeline::EventIndex(int32_t iteration, uint32_t event) const {
  return static_cast<size_t>(iteration) * plan_.event_count + event;
}

OpPosition RankTimeline::PositionOf(const StreamCursor& cursor, const Step& step) const {
  return OpPosition{cursor.iteration} * plan_.size() + step.op;
}

HoldId RankTimeline::HoldOf(const StreamCursor* cursor) const {
  return config_.first_hold + static_cast<HoldId>(cursor - cursors_.data());
}

void RankTimeline::Advance(Rendezvous* rendezvous) {
  rendezvous_ = rendezvous;
  bool moved = true;
  while (moved) {
    moved = AdvanceHost();
    for (uint16_t stream = 0; stream < cursors_.size(); ++stream) {
      moved = AdvanceStream(stream) || moved;
    }
  }
}

bool RankTimeline::finished() const {
  if (frontier_ < end_) {
    return false;
  }
  for (uint16_t stream = 0; stream < cursors_.size(); ++stream) {
    if (!Drained(stream)) {
      return false;
    }
  }
  return true;
}

bool RankTimeline::ApplyGaps() {
  bool applied = false;
  while (!gaps_.empty() && gaps_.front().position == frontier_) {
    segments_.push_back({frontier_, segments_.back().base + gaps_.front().duration_ns});
    gaps_.erase(gaps_.begin());
    applied = true;
  }
  return applied;
}

OpPosition RankTimeline::NextHostWait() const {
  if (plan_.host_waits.empty()) {
    return end_;
  }
  return OpPosition{wait_iteration_} * plan_.size() + plan_.host_waits[next_wait_].op;
}

bool RankTimeline::AdvanceHost() {
  bool moved = ApplyGaps();
  while (frontier_ < limit_) {
    OpPosition wait = NextHostWait();
    if (wait == frontier_) {
      if (!PassHostWait()) {
        return moved;
      }
    } else {
      OpPosition target = std::min(wait, limit_);
      if (!gaps_.empty()) {
        target = std::min(target, gaps_.front().position);
      }
      TraceHostOps(frontier_, target);
      frontier_ = target;
    }
    ApplyGaps();
    moved = true;
  }
  return moved;
}

bool RankTimeline::Drained(uint16_t stream) const {
  const StreamCursor& cursor = cursors_[stream];
  const std::vector<Step>& steps = plan_.streams[stream];
  if (steps.empty()) {
    return true;
  }
  if (cursor.holding) {
    return false;
  }
  // A cursor behind its last step stands before the first one of the next iteration.
  if (cursor.next == steps.size()) {
    return OpPosition{cursor.iteration + 1} * plan_.size() + steps.front().op >= frontier_;
  }
  return PositionOf(cursor, steps[cursor.next]) >= frontier_;
}

std::optional<TimeNs> RankTimeline::HostWaitTarget(const HostWait& wait) const {
  if (wait.kind == OpKind::kEventSync) {
    TimeNs recorded = events_[EventIndex(wait_iteration_, wait.event)];
    return recorded == kUnknown ? std::nullopt : std::optional(recorded);
  }
  TimeNs latest = 0;
  for (uint16_t stream = 0; stream < cursors_.size(); ++stream) {
    if (wait.kind == OpKind::kStreamSync && wait.stream != stream) {
      continue;
    }
    if (!Drained(stream)) {
      return std::nullopt;
    }
    latest = std::max(latest, cursors_[stream].tail);
  }
  return latest;
}

bool RankTimeline::PassHostWait() {
  const HostWait& wait = plan_.host_waits[next_wait_];
  std::optional<TimeNs> target = HostWaitTarget(wait);
  if (!target) {
    return false;
  }
  TimeNs issue = segments_.back().base + CumulativeHost(frontier_);
  DurationNs charge = wait.charge == kNone ? 0 : charge_ns_[wait.charge];
  TimeNs end = std::max(issue, *target) + charge;
  segments_.push_back({frontier_ + 1, end - CumulativeHost(frontier_)});
  if (config_.traced) {
    auto index = static_cast<size_t>(frontier_);
    trace_.issue[index] = issue;
    trace_.start[index] = issue;
    trace_.end[index] = end;
  }
  ++frontier_;
  if (++next_wait_ == plan_.host_waits.size()) {
    next_wait_ = 0;
    ++wait_iteration_;
  }
  return true;
}

void RankTimeline::SelectSegment(StreamCursor* cursor, OpPosition position) const {
  while (cursor->segment + 1 < segments_.size() &&
         segments_[cursor->segment + 1].begin <= position) {
    ++cursor->segment;
  }
}

bool RankTimeline::AdvanceStream(uint16_t stream) {
  StreamCursor* cursor = &cursors_[stream];
  const std::vector<Step>& steps = plan_.streams[stream];
  bool moved = false;
  while (!steps.empty()) {
    if (cursor->holding) {
      if (rendezvous_->hold(HoldOf(cursor)).open > 0) {
        break;
      }
      FinishHold(cursor, steps[cursor->next]);
      moved = true;
    }
    if (cursor->next == steps.size()) {
      cursor->next = 0;
      ++cursor->iteration;
    }
    const Step& step = steps[cursor->next];
    OpPosition position = PositionOf(*cursor, step);
    if (position >= frontier_) {
      break;
    }
    SelectSegment(cursor, position);
    TimeNs issue = segments_[cursor->segment].base + cursor->iteration * plan_.iteration_host_ns() +
                   step.host_ns;
    if (cursor->next == 0 && stream == plan_.first_stream) {
      starts_[static_cast<size_t>(cursor->iteration)] = std::max(issue, cursor->tail);
    }
    if (step.kind == StepKind::kWork) {
      RunWork(cursor, steps);
    } else if (!Execute(cursor, step, issue)) {
      break;
    }
    moved = true;
  }
  return moved;
}

// The hot loop: a run of kernels and copies that the host has issued without waiting in between.
void RankTimeline::RunWork(StreamCursor* cursor, const std::vector<Step>& steps) {
  OpPosition origin = OpPosition{cursor->iteration} * plan_.size();
  OpPosition until = frontier_;
  if (cursor->segment + 1 < segments_.size()) {
    until = std::min(until, segments_[cursor->segment + 1].begin);
  }
  until -= origin;
  TimeNs base = segments_[cursor->segment].base + cursor->iteration * plan_.iteration_host_ns();
  double jitter = config_.partition->jitter;
  bool collects = Collects(cursor->iteration);
  TimeNs tail = cursor->tail;
  uint32_t next = cursor->next;
  while (next < steps.size() && steps[next].kind == StepKind::kWork && steps[next].op < until) {
    const Step& step = steps[next++];
    TimeNs start = std::max(base + step.host_ns, tail);
    DurationNs duration = step.duration;
    if (jitter > 0 && step.compute) {
      duration =
          Jittered(duration, jitter,
                   {config_.options->seed, rank_class_.representative, cursor->iteration, step.op});
    }
    tail = start + duration;
    if (collects && step.compute) {
      AddCompute(cursor, start, tail);
    }
    if (config_.traced) {
      cursor->tail = tail;
      TraceStep(*cursor, step, base + step.host_ns, start);
    }
  }
  cursor->tail = tail;
  cursor->next = next;
}

void RankTimeline::AddCompute(StreamCursor* cursor, TimeNs begin, TimeNs end) const {
  if (!cursor->compute.empty() && cursor->compute.back().end == begin) {
    cursor->compute.back().end = end;
  } else if (begin < end) {
    cursor->compute.push_back({begin, end});
  }
}

bool RankTimeline::Execute(StreamCursor* cursor, const Step& step, TimeNs issue) {
  TimeNs reached = std::max(issue, cursor->tail);
  switch (step.kind) {
    case StepKind::kWork:
      break;  // RunWork
    case StepKind::kRecord:
      cursor->tail = reached;
      if (step.aux != kNone) {
        events_[EventIndex(cursor->iteration, step.aux)] = reached;
      }
      TraceStep(*cursor, step, issue, reached);
      ++cursor->next;
      break;
    case StepKind::kWait:
      return ExecuteWait(cursor, step, issue);
    case StepKind::kCollective:
      ReachCollective(cursor, step, reached);
      TraceStep(*cursor, step, issue, reached);
      break;
    case StepKind::kPeerGroup:
      ReachPeerGroup(cursor, step, reached);
      TraceStep(*cursor, step, issue, reached);
      break;
  }
  return true;
}

bool RankTimeline::ExecuteWait(StreamCursor* cursor, const Step& step, TimeNs issue) {
  TimeNs reached = std::max(issue, cursor->tail);
  TimeNs ready = reached;
  if (step.aux != kNone) {
    TimeNs recorded = events_[EventIndex(cursor->iteration, step.aux)];
    if (recorded == kUnknown) {
      return false;
    }
    ready = std::max(ready, recorded);
  }
  DurationNs charge = step.charge == kNone ? 0 : charge_ns_[step.charge];
  cursor->tail = ready + charge;
  if (Collects(cursor->iteration)) {
    // The charge stands for compute that a collective slowed down.
    AddCompute(cursor, ready, cursor->tail);
  }
  TraceStep(*cursor, step, issue, reached);
  ++cursor->next;
  return true;
}

void RankTimeline::ReachCollective(StreamCursor* cursor, const Step& step, TimeNs arrival) {
  HoldId hold = HoldOf(cursor);
  cursor->holding = true;
  uint32_t count = 0;
  for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
    ++count;
  }
  rendezvous_->Open(hold, arrival, count);
  for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
    const CollectiveCall& call = plan_.calls[c];
    int64_t sequence =
        int64_t{cursor->iteration} * plan_.calls_per_slot[call.comm_slot] + call.sequence;
    rendezvous_->Arrive(
        CollectiveArrival{rank_class_.comms[call.comm_slot], sequence, hold, call_ns_[c]});
  }
}

void RankTimeline::ReachPeerGroup(StreamCursor* cursor, const Step& step, TimeNs arrival) {
  PeerPosts posts = plan_.groups[step.aux];
  HoldId hold = HoldOf(cursor);
  cursor->holding = true;
  rendezvous_->Open(hold, arrival, posts.end - posts.begin);
  for (uint32_t p = posts.begin; p < posts.end; ++p) {
    const PeerPost& post = plan_.posts[p];
    const Endpoint& endpoint = plan_.endpoints[post.endpoint];
    PeerArrival peer;
    peer.channel = rank_class_.channels[post.endpoint].channel;
    peer.is_send = endpoint.is_send;
    peer.eager = endpoint.is_send && config_.collective_cost->IsEager(post.bytes);
    peer.sequence = int64_t{cursor->iteration} * endpoint.per_iteration + post.sequence;
    peer.hold = hold;
    peer.transfer_ns = post_ns_[p];
    rendezvous_->Arrive(peer);
  }
}

void RankTimeline::FinishHold(StreamCursor* cursor, const Step& step) {
  const Hold& hold = rendezvous_->hold(HoldOf(cursor));
  cursor->holding = false;
  cursor->tail = hold.end;
  TraceHold(*cursor, step, hold);
  if (Collects(cursor->iteration)) {
    for (const TimeRange& transfer : hold.transfers) {
      activity_.transfer.push_back(transfer);
    }
    bool waits_for_stage = step.kind == StepKind::kPeerGroup;
    for (uint32_t c = waits_for_stage ? kNone : step.aux; c != kNone;
         c = plan_.calls[c].next_in_group) {
      CommEntry entry = rank_class_.comms[plan_.calls[c].comm_slot];
      waits_for_stage =
          waits_for_stage || config_.partition->comm_classes[entry.comm_class].spans_stages;
    }
    if (waits_for_stage && hold.start > hold.arrival) {
      activity_.peer_wait.push_back({hold.arrival, hold.start});
    }
  }
  if (cursor->iteration + 1 == iterations_) {
    CountTraffic(step, hold);
  }
  ++cursor->next;
}

void RankTimeline::CountTraffic(const Step& step, const Hold& hold) {
  if (step.kind == StepKind::kCollective) {
    for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
      const CollectiveCall& call = plan_.calls[c];
      SlotTraffic& traffic = traffic_[call.comm_slot];
      ++traffic.calls;
      traffic.bytes += plan_.program->collectives[plan_.transfers[call.transfer].shape].bytes;
      traffic.transfer_ns += transfer_ns_[call.transfer];
    }
    traffic_[plan_.calls[step.aux].comm_slot].wait_ns += hold.start - hold.arrival;
    return;
  }
  PeerPosts posts = plan_.groups[step.aux];
  for (uint32_t p = posts.begin; p < posts.end; ++p) {
    SlotTraffic& traffic = traffic_[plan_.endpoints[plan_.posts[p].endpoint].comm_slot];
    ++traffic.calls;
    traffic.bytes += plan_.posts[p].bytes;
  }
  if (posts.begin < posts.end) {
    // A group's time cannot be divided; it counts for the communicator of its first transfer.
    SlotTraffic& traffic = traffic_[plan_.endpoints[plan_.posts[posts.begin].endpoint].comm_slot];
    traffic.transfer_ns += hold.end - hold.start;
    traffic.wait_ns += hold.start - hold.arrival;
  }
}

}  // namespace prism::replayer
