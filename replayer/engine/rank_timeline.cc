#include "replayer/engine/rank_timeline.h"

#include <algorithm>

#include "replayer/engine/lane_rows.h"

namespace prism::replayer {

using graph::OpKind;

RankTimeline::RankTimeline(const Config& config)
    : config_(config),
      rank_class_(config.partition->classes[config.class_index]),
      plan_(config.partition->plans[rank_class_.groups.front().plan]),
      lanes_(static_cast<uint32_t>(rank_class_.lanes.size())),
      iterations_(config.options->iterations),
      host_(plan_, rank_class_, iterations_),
      traces_(plan_,
              rank_class_,
              {config.traced, iterations_, /*decisive=*/!config.options->traced.empty()}),
      activity_(lanes_),
      cursors_(plan_.streams.size(), StreamCursor{LaneStream(&activity_)}),
      runnable_(cursors_.size()),
      events_(EventIndex(iterations_ + 1, 0)),
      starts_(static_cast<size_t>(iterations_)),
      traffic_(rank_class_.comms.size()) {
  if (config.gated) {
    PRISM_CHECK_EQ(lanes_, 1U);
    host_.Gate();
  }
  for (SlotTraffic& traffic : traffic_) {
    traffic.transfer_ns.assign(lanes_, 0);
    traffic.wait_ns.assign(lanes_, 0);
  }
  folds_ = config.options->fold && traces_.empty() && !config.partition->jitter.any() &&
           rank_class_.interference.empty();
  if (config.options->breakdown) {
    const auto& most = plan_.most_transfers;
    activity_.Reserve(most.empty() ? 0 : *std::ranges::max_element(most));
  }
  for (StreamCursor& cursor : cursors_) {
    StartIteration(&cursor);
  }
  costs_ = CostTransfers(plan_, WiringOf(*config.partition, config.class_index),
                         *config.collective_cost, config.options->comm_scale);
  for (const LaneGroup& group : rank_class_.groups) {
    const RolePlan& plan = config.partition->plans[group.plan];
    charge_ns_.push_back(CostCharges(plan.charge_sources, plan.charge_count, costs_.transfer_ns,
                                     config.overlap_slowdown));
  }
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

// Only for ops that the host has issued: selects their segment.
IssueTimes RankTimeline::IssueOf(const StreamCursor& cursor, const Step& step) const {
  return {host_.BaseOf(cursor.segment),
          cursor.iteration * plan_.iteration_host_ns() + step.host_ns};
}

void RankTimeline::Advance(Meetings* meetings) {
  meetings_ = meetings;
  runnable_.TakeSettled();
  bool moved = true;
  while (moved) {
    moved = AdvanceHost();
    runnable_.Issued(host_.issued());
    moved = runnable_.AdvanceAll([&](uint16_t stream) { return AdvanceStream(stream); }) || moved;
  }
  if (activity_.ShouldCount()) {
    CountActivity(true);
  }
}

void RankTimeline::RunAhead(Meetings* meetings) {
  PRISM_CHECK(finished());
  if (host_.end() == OpPosition{iterations_} * plan_.size()) {
    host_.Prolong(plan_.ahead);
    Advance(meetings);
    PRISM_CHECK(finished());
  }
}

bool RankTimeline::finished() const {
  if (host_.issued() < host_.end()) {
    return false;
  }
  for (uint16_t stream = 0; stream < cursors_.size(); ++stream) {
    if (!Drained(stream)) {
      return false;
    }
  }
  return true;
}

bool RankTimeline::AdvanceHost() {
  bool moved = host_.PassGaps();
  while (host_.issued() < host_.limit()) {
    if (const HostWait* wait = host_.NextWait(); wait == nullptr) {
      host_.IssueOps(&traces_);
    } else if (!PassHostWait(*wait)) {
      return moved;
    }
    host_.PassGaps();
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
  // A cursor past its last step is at the first one of the next iteration.
  if (cursor.next == steps.size()) {
    return OpPosition{cursor.iteration + 1} * plan_.size() + steps.front().op >= host_.issued();
  }
  return PositionOf(cursor, steps[cursor.next]) >= host_.issued();
}

// When the wait ends, by lane; false while that is not known.
bool RankTimeline::ReadHostWait(const HostWait& wait, std::vector<TimeNs>* target) {
  if (wait.kind == OpKind::kEventSync) {
    const Event& event = events_[EventIndex(host_.wait_iteration(), wait.event)];
    *target = event.times;
    return event.recorded;
  }
  if (wait.kind == OpKind::kStreamSync) {
    *target = cursors_[wait.stream].lanes.tail();
    return Drained(wait.stream);
  }
  // A drained stream stays drained while the host waits.
  while (drained_ < cursors_.size() && Drained(static_cast<uint16_t>(drained_))) {
    ++drained_;
  }
  if (drained_ < cursors_.size()) {
    return false;
  }
  drained_ = 0;
  target->assign(lanes_, 0);
  for (const StreamCursor& cursor : cursors_) {
    const std::vector<TimeNs>& tail = cursor.lanes.tail();
    std::transform(tail.begin(), tail.end(), target->begin(), target->begin(),
                   [](TimeNs a, TimeNs b) { return std::max(a, b); });
  }
  return true;
}

bool RankTimeline::PassHostWait(const HostWait& wait) {
  std::vector<TimeNs> base;
  if (!ReadHostWait(wait, &base)) {
    return false;
  }
  const DurationNs host = plan_.HostNsUntil(host_.issued());
  const std::vector<TimeNs>& issued = host_.current().base;
  for (size_t g = 0; g < rank_class_.groups.size(); ++g) {
    const DurationNs charge = wait.charge == kNone ? 0 : charge_ns_[g][wait.charge];
    for (uint32_t lane = rank_class_.groups[g].begin; lane < rank_class_.groups[g].end; ++lane) {
      base[lane] = std::max(issued[lane], base[lane] - host) + charge;
    }
  }
  traces_.WaitAt(host_.issued(), issued, base);
  if (config_.actions != nullptr) {
    config_.actions->push_back({ActionKind::kHostWait, 0, host_.wait_iteration(),
                                host_.segment_count() - 1,
                                static_cast<uint32_t>(host_.wait_index()), 0});
  }
  host_.PassWait(std::move(base));
  return true;
}

bool RankTimeline::AdvanceStream(uint16_t stream) {
  StreamCursor* cursor = &cursors_[stream];
  const std::vector<Step>& steps = plan_.streams[stream];
  bool moved = false;
  while (!steps.empty()) {
    if (cursor->holding) {
      if (meetings_->hold(HoldOf(cursor)).open.load(std::memory_order_acquire) > 0) {
        break;
      }
      FinishHold(cursor, steps[cursor->next]);
      moved = true;
    }
    if (cursor->next == steps.size()) {
      cursor->next = 0;
      ++cursor->iteration;
      StartIteration(cursor);
    }
    const Step& step = steps[cursor->next];
    OpPosition position = PositionOf(*cursor, step);
    if (position >= host_.issued()) {
      runnable_.WaitForHost(stream, position);
      break;
    }
    cursor->segment = host_.Find(cursor->segment, position);
    if (Begins(*cursor) && !IsMeasured(step)) {
      NoteStart(*cursor, IssueOf(*cursor, step));
    }
    if (step.kind == StepKind::kWork) {
      RunWork(cursor, stream);
    } else if (!Execute(cursor, step)) {
      break;
    }
    moved = true;
  }
  return moved;
}

void RankTimeline::StartIteration(StreamCursor* cursor) const {
  if (Collects(cursor->iteration) && (cursor->iteration == 0 || !Collects(cursor->iteration - 1))) {
    cursor->lanes.Collect();
  }
}

void RankTimeline::NoteAction(ActionKind kind, const StreamCursor& cursor, uint32_t first) const {
  if (config_.actions != nullptr) {
    const auto stream = static_cast<uint16_t>(&cursor - cursors_.data());
    config_.actions->push_back(
        {kind, stream, cursor.iteration, cursor.segment, first, cursor.next});
  }
}

bool RankTimeline::Begins(const StreamCursor& cursor) const {
  return cursor.next == 0 && &cursor == &cursors_[plan_.first_stream];
}

bool RankTimeline::IsMeasured(const Step& step) const {
  return measured_ && (step.kind == StepKind::kCollective || step.kind == StepKind::kPeerGroup);
}

void RankTimeline::NoteStart(const StreamCursor& cursor, const IssueTimes& issue) {
  NoteAction(ActionKind::kStart, cursor, 0);
  std::vector<TimeNs>& starts = starts_[static_cast<size_t>(cursor.iteration)];
  starts.resize(lanes_);
  MaxRow(cursor.lanes.tail().data(), issue.base, issue.host_ns, starts.data(), lanes_);
  if (cursor.iteration + 1 == iterations_ && config_.options->breakdown) {
    activity_.Open(starts);
  }
}

bool RankTimeline::Execute(StreamCursor* cursor, const Step& step) {
  if (step.kind == StepKind::kWait) {
    return ExecuteWait(cursor, step);
  }
  IssueTimes issue = IssueOf(*cursor, step);
  if (IsMeasured(step)) {
    if (!TakeArrival(cursor, step)) {
      return false;
    }
    issue = {cursor->lanes.tail().data(), 0};  // it arrives when it was measured to arrive
    if (Begins(*cursor)) {
      NoteStart(*cursor, issue);
    }
  }
  TraceBegin(*cursor, step, issue);
  if (step.kind == StepKind::kRecord) {
    cursor->lanes.WaitUntil(issue);
    if (step.aux != kNone) {
      const size_t event = EventIndex(cursor->iteration, step.aux);
      events_[event] = {true, cursor->lanes.tail()};
      runnable_.Recorded(event);
      if (measured_) {
        recorded_.push_back(
            {PositionOf(*cursor, step), event, static_cast<size_t>(cursor - cursors_.data())});
      }
    }
    TraceEnd(*cursor, step);
    NoteAction(ActionKind::kRecord, *cursor, cursor->next);
    ++cursor->next;
    return true;
  }
  NoteAction(ActionKind::kArrive, *cursor, cursor->next);
  BeginHold(cursor, issue);
  if (step.kind == StepKind::kCollective) {
    ReachCollective(cursor, step);
  } else {
    ReachPeerGroup(cursor, step);
  }
  return true;
}

bool RankTimeline::ExecuteWait(StreamCursor* cursor, const Step& step) {
  const Event* event =
      step.aux == kNone ? nullptr : &events_[EventIndex(cursor->iteration, step.aux)];
  if (event != nullptr && !event->recorded) {
    runnable_.WaitForEvent(static_cast<uint16_t>(cursor - cursors_.data()),
                           EventIndex(cursor->iteration, step.aux));
    return false;
  }
  const IssueTimes issue = IssueOf(*cursor, step);
  TraceBegin(*cursor, step, issue);
  cursor->lanes.WaitUntil(issue);
  if (event != nullptr) {
    cursor->lanes.WaitUntil(event->times);
  }
  if (step.charge != kNone) {
    // The charge accounts for compute that a collective slowed down.
    for (size_t g = 0; g < rank_class_.groups.size(); ++g) {
      cursor->lanes.Prolong(rank_class_.groups[g], charge_ns_[g][step.charge]);
    }
  }
  TraceEnd(*cursor, step);
  NoteAction(ActionKind::kWait, *cursor, cursor->next);
  ++cursor->next;
  return true;
}

// Holds the stream at its op until the transfers are known.
void RankTimeline::BeginHold(StreamCursor* cursor, const IssueTimes& issue) {
  Hold& hold = meetings_->hold(HoldOf(cursor));
  cursor->holding = true;
  hold.keeps_transfers = Collects(cursor->iteration);
  hold.arrival.resize(lanes_);
  MaxRow(cursor->lanes.tail().data(), issue.base, issue.host_ns, hold.arrival.data(), lanes_);
}

void RankTimeline::ReachCollective(StreamCursor* cursor, const Step& step) {
  HoldId hold = HoldOf(cursor);
  uint32_t count = 0;
  for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
    ++count;
  }
  meetings_->Open(hold, count);
  for (uint32_t c = step.aux; c != kNone; c = plan_.calls[c].next_in_group) {
    const CollectiveCall& call = plan_.calls[c];
    int64_t sequence =
        int64_t{cursor->iteration} * plan_.calls_per_slot[call.comm_slot] + call.sequence;
    const TransferKind& kind = plan_.transfers[call.transfer];
    meetings_->Arrive(CollectiveArrival{
        &rank_class_.comms[call.comm_slot], sequence, hold, costs_.call_ns[c],
        costs_.transfer_ns[call.transfer], call.previous_on_slot != kNone,
        kind.fixed_ns >= 0 ? nullptr : &plan_.program->collectives[kind.shape], c});
  }
}

// Receives first: then a send to the class itself is matched at once.
void RankTimeline::ReachPeerGroup(StreamCursor* cursor, const Step& step) {
  const PeerPosts posts = plan_.groups[step.aux];
  meetings_->Open(HoldOf(cursor), posts.end - posts.begin);
  for (const bool sends : {false, true}) {
    for (uint32_t p = posts.begin; p < posts.end; ++p) {
      if (plan_.endpoints[plan_.posts[p].endpoint].is_send == sends) {
        Post(*cursor, p);
      }
    }
  }
}

void RankTimeline::Post(const StreamCursor& cursor, uint32_t index) {
  const PeerPost& post = plan_.posts[index];
  const Endpoint& endpoint = plan_.endpoints[post.endpoint];
  PeerArrival peer;
  peer.channel = &rank_class_.channels[post.endpoint];
  peer.is_send = endpoint.is_send;
  peer.eager = endpoint.is_send && config_.collective_cost->IsEager(post.bytes);
  peer.sequence = int64_t{cursor.iteration} * endpoint.per_iteration + post.sequence;
  peer.hold = HoldOf(&cursor);
  peer.transfer_ns = costs_.post_ns[index];
  peer.fixed = post.fixed_ns >= 0;
  peer.label = index;
  peer.bytes = post.bytes;
  meetings_->Arrive(peer);
}

void RankTimeline::FinishHold(StreamCursor* cursor, const Step& step) {
  Hold& hold = meetings_->hold(HoldOf(cursor));
  cursor->holding = false;
  cursor->lanes.WaitUntil(hold.end);
  traces_.EndOfHold(cursor->iteration, step, hold);
  if (cursor->iteration + 1 == iterations_) {
    CountTraffic(step, hold, *meetings_);
  }
  if (Collects(cursor->iteration)) {
    KeepActivity(step, &hold);
  }
  NoteAction(ActionKind::kFinish, *cursor, cursor->next);
  ++cursor->next;
}

}  // namespace prism::replayer
