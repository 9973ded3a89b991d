#include "replayer/stages/stage_run.h"

#include <algorithm>

namespace prism::replayer {

StageRun::StageRun(const StagePlan& plan, const StageCostModel& model, bool detailed)
    : plan_(plan), model_(model), costs_(model.costs()), detailed_(detailed) {
  state_.stages.resize(plan.stages.size());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    Stage& stage = state_.stages[s];
    stage.tails.resize(graph::kStageStreamCount);
    stage.events.resize(plan.stages[s].event_count);
    stage.lanes.resize(plan.stages[s].lanes.size());
  }
  state_.meetings.resize(plan.meetings.size());
  for (std::vector<TimeNs>& arrivals : state_.arrivals) {
    arrivals.resize(plan.messages.size());
  }
}

bool StageRun::Run(int32_t iterations) {
  for (Stage& stage : state_.stages) {
    std::ranges::fill(stage.tails, 0);
    stage.host = 0;
    stage.activity = {};
  }
  equal_ = detailed_ ? EqualRounds{} : FindEqualRounds(plan_, costs_);
  for (int32_t iteration = 0; iteration < iterations; ++iteration) {
    BeginIteration(detailed_ && iteration + 2 >= iterations);
    if (!RunIteration()) {
      return false;
    }
    if (!detailed_ && IsSteady()) {
      return true;
    }
  }
  return true;
}

// Whether the iteration has advanced all stages by the same time: then all further ones do the
// same. A stream that has not moved is not used.
bool StageRun::IsSteady() const {
  const DurationNs moved = state_.stages.front().host - state_.stages.front().before.back();
  for (const Stage& stage : state_.stages) {
    if (stage.host - stage.before.back() != moved) {
      return false;
    }
    for (size_t stream = 0; stream < stage.tails.size(); ++stream) {
      const DurationNs by = stage.tails[stream] - stage.before[stream];
      if (by != moved && by != 0) {
        return false;
      }
    }
  }
  return true;
}

void StageRun::BeginIteration(bool collects) {
  collects_ = collects;
  for (std::vector<TimeNs>& arrivals : state_.arrivals) {
    std::ranges::fill(arrivals, kUnknown);
  }
  for (size_t m = 0; m < state_.meetings.size(); ++m) {
    state_.meetings[m] = {plan_.meetings[m].members, 0};
  }
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    Stage& stage = state_.stages[s];
    stage.start = StartOf(s);
    stage.before = stage.tails;
    stage.before.push_back(stage.host);
    std::ranges::fill(stage.events, kUnknown);
    std::ranges::fill(stage.lanes, LaneCursor{});
    stage.waits = {};
    stage.bases.assign(1, stage.host);
    Wake(s);
  }
}

// The time at which the first op with a stream would begin.
TimeNs StageRun::StartOf(size_t s) const {
  const StageLanes& lanes = plan_.stages[s];
  const Stage& stage = state_.stages[s];
  return std::max(stage.host + costs_.span_ns[lanes.first_span], stage.tails[lanes.first_stream]);
}

bool StageRun::RunIteration() {
  RunRounds();
  Settle();
  for (size_t s = 0; s < state_.stages.size(); ++s) {
    if (!Done(s)) {
      return false;
    }
    Stage& stage = state_.stages[s];
    stage.host = stage.bases.back() + costs_.iteration_host_ns[s];
    stage.next_start = StartOf(s);
  }
  return true;
}

// Runs until everything waits or is done.
void StageRun::Settle() {
  while (!work_.empty()) {
    const uint32_t stage = work_.back();
    work_.pop_back();
    state_.stages[stage].queued = false;
    Advance(stage);
  }
}

void StageRun::Wake(size_t stage) {
  if (!state_.stages[stage].queued) {
    state_.stages[stage].queued = true;
    work_.push_back(static_cast<uint32_t>(stage));
  }
}

bool StageRun::Done(size_t s) const {
  const Stage& stage = state_.stages[s];
  for (size_t lane = 0; lane < stage.lanes.size(); ++lane) {
    if (stage.lanes[lane].next < plan_.stages[s].lanes[lane].size()) {
      return false;
    }
  }
  return stage.waits.next == plan_.stages[s].syncs.size();
}

void StageRun::Advance(size_t stage) {
  bool moved = true;
  while (moved) {
    moved = AdvanceHost(stage);
    for (uint32_t lane = 0; lane < state_.stages[stage].lanes.size(); ++lane) {
      moved = AdvanceLane(stage, lane) || moved;
    }
  }
}

bool StageRun::LanePassed(size_t s, uint32_t lane, uint32_t instruction) const {
  const std::vector<uint32_t>& indices = plan_.stages[s].lanes[lane];
  const LaneCursor& cursor = state_.stages[s].lanes[lane];
  return cursor.next == indices.size() || indices[cursor.next] > instruction;
}

// Passes those waits of the host whose end is known.
bool StageRun::AdvanceHost(size_t s) {
  const StageLanes& lanes = plan_.stages[s];
  Stage& stage = state_.stages[s];
  LaneCursor& waits = stage.waits;
  bool moved = false;
  while (waits.next < lanes.syncs.size()) {
    const uint32_t index = lanes.syncs[waits.next];
    if (index >= stage.halt) {
      return moved;
    }
    const Instruction& sync = lanes.instructions[index];
    TimeNs target = 0;
    if (sync.sync == graph::OpKind::kEventSync) {
      target = stage.events[sync.event];
      if (target == kUnknown) {
        return moved;
      }
    } else {
      for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
        if (sync.sync == graph::OpKind::kStreamSync && stream != sync.stream) {
          continue;
        }
        if (!LanePassed(s, lanes.lane_of_stream[stream], index)) {
          return moved;
        }
        target = std::max(target, stage.tails[stream]);
      }
    }
    const DurationNs charge = sync.charge == kNone ? 0 : costs_.charge_ns[s][sync.charge];
    const TimeNs reached = HostAt(s, index);
    const TimeNs end = std::max(reached, target) + charge;
    stage.bases.push_back(stage.bases.back() + (end - reached));
    ++waits.next;
    moved = true;
  }
  return moved;
}

// The time at which the host issues that instruction, or reaches it if it is a host wait.
TimeNs StageRun::HostAt(size_t s, uint32_t i) const {
  return state_.stages[s].bases[plan_.stages[s].instructions[i].epoch] + costs_.host_ns[s][i];
}

bool StageRun::AdvanceLane(size_t s, uint32_t lane) {
  const std::vector<uint32_t>& indices = plan_.stages[s].lanes[lane];
  LaneCursor& cursor = state_.stages[s].lanes[lane];
  bool moved = false;
  while (cursor.next < indices.size() && indices[cursor.next] < state_.stages[s].halt &&
         Execute(s, indices[cursor.next], &cursor)) {
    ++cursor.next;
    moved = true;
  }
  return moved;
}

// False if the instruction has to wait.
bool StageRun::Execute(size_t s, uint32_t i, LaneCursor* cursor) {
  const Instruction& instruction = plan_.stages[s].instructions[i];
  Stage& stage = state_.stages[s];
  if (cursor->holding) {
    return Finish(s, i, cursor);
  }
  if (instruction.epoch >= stage.bases.size()) {
    return false;
  }
  const TimeNs issue = HostAt(s, i);
  if (instruction.kind == InstructionKind::kSegment) {
    ApplySegment(costs_.segments[model_.KindOf(s)][instruction.index], issue, &stage);
    return true;
  }
  TimeNs& tail = stage.tails[instruction.stream];
  const TimeNs reached = std::max(issue, tail);
  switch (instruction.kind) {
    case InstructionKind::kWork:
      tail = reached + costs_.work_ns[instruction.index];
      if (plan_.tables.works[instruction.index].is_compute()) {
        NoteCompute(&stage, reached, tail);
      }
      return true;
    case InstructionKind::kRecord:
      tail = reached;
      if (instruction.event != kNone) {
        stage.events[instruction.event] = reached;
      }
      return true;
    case InstructionKind::kWait: {
      TimeNs ready = reached;
      if (instruction.event != kNone) {
        const TimeNs event = stage.events[instruction.event];
        if (event == kUnknown) {
          return false;
        }
        ready = std::max(ready, event);
      }
      tail = ready + (instruction.charge == kNone ? 0 : costs_.charge_ns[s][instruction.charge]);
      NoteCompute(&stage, ready, tail);
      return true;
    }
    case InstructionKind::kCollective:
      tail = reached + costs_.collective_ns[model_.KindOf(s)][instruction.index];
      NoteTransfer(&stage, reached, tail);
      return true;
    case InstructionKind::kMeeting:
    case InstructionKind::kPeerGroup:
      cursor->holding = true;
      cursor->arrival = reached;
      Arrive(s, instruction, *cursor);
      return Finish(s, i, cursor);
    case InstructionKind::kSegment:
    case InstructionKind::kHostSync:
      break;
  }
  return true;
}

void StageRun::ApplySegment(const FoldedSegment& segment, TimeNs host, Stage* stage) const {
  std::array<TimeNs, kMaxFoldedStreams> after;
  for (uint32_t i = 0; i < segment.stream_count; ++i) {
    TimeNs latest = host + segment.from_host[i];
    for (uint32_t j = 0; j < segment.stream_count; ++j) {
      latest = std::max(latest, stage->tails[segment.streams[j]] + segment.from_tail[i][j]);
    }
    after[i] = latest;
  }
  for (uint32_t i = 0; i < segment.stream_count; ++i) {
    stage->tails[segment.streams[i]] = after[i];
  }
}

void StageRun::Arrive(size_t s, const Instruction& instruction, const LaneCursor& cursor) {
  if (instruction.kind == InstructionKind::kMeeting) {
    Meeting& meeting = state_.meetings[instruction.index];
    meeting.latest = std::max(meeting.latest, cursor.arrival);
    if (--meeting.missing == 0) {
      for (const auto& [stage, transfer] : plan_.meetings[instruction.index].transfers) {
        Wake(static_cast<size_t>(stage));
      }
    }
    return;
  }
  for (const StagePost& post : plan_.peer_groups[instruction.index].posts) {
    state_.arrivals[post.is_send ? 1 : 0][post.message] = cursor.arrival;
    const PeerChannel& channel = plan_.channels[plan_.messages[post.message].channel];
    const auto peer = static_cast<size_t>(post.is_send ? channel.to : channel.from);
    if (peer != s) {
      Wake(peer);
    }
  }
}

TimeNs StageRun::PeerArrival(const StagePost& post) const {
  return state_.arrivals[post.is_send ? 0 : 1][post.message];
}

bool StageRun::Finish(size_t s, uint32_t i, LaneCursor* cursor) {
  const Instruction& instruction = plan_.stages[s].instructions[i];
  Stage& stage = state_.stages[s];
  if (instruction.kind == InstructionKind::kMeeting) {
    const Meeting& meeting = state_.meetings[instruction.index];
    if (meeting.missing > 0) {
      return false;
    }
    const TimeNs end = meeting.latest + costs_.meeting_ns[instruction.index];
    stage.tails[instruction.stream] = end;
    NoteTransfer(&stage, meeting.latest, end);
    if (collects_ && meeting.latest > cursor->arrival) {
      stage.activity.peer_wait.push_back({cursor->arrival, meeting.latest});
    }
  } else if (!FinishGroup(s, i, *cursor)) {
    return false;
  }
  cursor->holding = false;
  return true;
}

// A send below the eager size ends by itself, and its bytes travel before the receiver arrives.
bool StageRun::FinishGroup(size_t s, uint32_t i, const LaneCursor& cursor) {
  const Instruction& instruction = plan_.stages[s].instructions[i];
  Stage& stage = state_.stages[s];
  const std::vector<StagePost>& posts = plan_.peer_groups[instruction.index].posts;
  for (const StagePost& post : posts) {
    const bool alone = post.is_send && costs_.message_eager[post.message];
    if (!alone && PeerArrival(post) == kUnknown) {
      return false;
    }
  }
  TimeNs start = cursor.arrival;
  TimeNs end = cursor.arrival;
  for (const StagePost& post : posts) {
    const DurationNs transfer_ns = costs_.message_ns[post.message];
    const bool eager = costs_.message_eager[post.message];
    TimeRange transfer;
    if (eager && post.is_send) {
      transfer = {cursor.arrival, cursor.arrival + costs_.message_send_ns[post.message]};
    } else {
      const TimeNs peer = PeerArrival(post);
      transfer.begin = std::max(cursor.arrival, peer);
      transfer.end =
          eager ? std::max(cursor.arrival, peer + transfer_ns) : transfer.begin + transfer_ns;
    }
    start = std::max(start, transfer.begin);
    end = std::max(end, transfer.end);
    NoteTransfer(&stage, transfer.begin, transfer.end);
  }
  stage.tails[instruction.stream] = end;
  if (collects_ && start > cursor.arrival) {
    stage.activity.peer_wait.push_back({cursor.arrival, start});
  }
  return true;
}

void StageRun::NoteCompute(Stage* stage, TimeNs begin, TimeNs end) const {
  if (!collects_ || begin == end) {
    return;
  }
  std::vector<TimeRange>& ranges = stage->activity.compute;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

void StageRun::NoteTransfer(Stage* stage, TimeNs begin, TimeNs end) const {
  if (collects_) {
    stage->activity.transfer.push_back({begin, end});
  }
}

DurationNs StageRun::IterationNs(size_t stage) const {
  return state_.stages[stage].next_start - state_.stages[stage].start;
}

RankTimes StageRun::Times(size_t stage) const {
  const Stage& of = state_.stages[stage];
  return BreakDown(of.activity, {of.start, of.next_start});
}

}  // namespace prism::replayer
