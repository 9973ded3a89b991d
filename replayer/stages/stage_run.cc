#include "replayer/stages/stage_run.h"

#include <algorithm>

#include "graph/base/check.h"

namespace prism::replayer {

StageRun::StageRun(const StagePlan& plan, const StageCostModel& model, bool detailed)
    : plan_(plan), model_(model), costs_(model.costs()), detailed_(detailed) {
  stages_.resize(plan.stages.size());
  for (size_t s = 0; s < stages_.size(); ++s) {
    stages_[s].tails.resize(graph::kStageStreamCount);
    stages_[s].events.resize(plan.stages[s].event_count);
    stages_[s].lanes.resize(plan.stages[s].lanes.size());
  }
  sent_.resize(plan.messages.size());
  received_.resize(plan.messages.size());
  meetings_.resize(plan.meetings.size());
}

bool StageRun::Run(int32_t iterations, const Lengthening* longer) {
  longer_ = longer;
  was_steady_ = true;
  for (Stage& stage : stages_) {
    std::fill(stage.tails.begin(), stage.tails.end(), 0);
    stage.host = 0;
    stage.activity = {};
  }
  for (int32_t iteration = 0; iteration < iterations; ++iteration) {
    BeginIteration(detailed_ && iteration + 2 >= iterations);
    if (!RunIteration()) {
      return false;
    }
    if (longer_ != nullptr && !WindowsWereSteady()) {
      was_steady_ = false;
      return true;
    }
    if (!detailed_ && IsSteady()) {
      return true;
    }
  }
  return true;
}

// Whether the iteration has moved all stages by the same time: then every further one is the same.
// A stream that has not moved is not used.
bool StageRun::IsSteady() const {
  const DurationNs moved = stages_.front().host - stages_.front().before.back();
  for (const Stage& stage : stages_) {
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
  std::fill(sent_.begin(), sent_.end(), kUnknown);
  std::fill(received_.begin(), received_.end(), kUnknown);
  for (size_t m = 0; m < meetings_.size(); ++m) {
    meetings_[m] = {plan_.meetings[m].members, 0};
  }
  for (size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = stages_[s];
    stage.start = StartOf(s);
    stage.before = stage.tails;
    stage.before.push_back(stage.host);
    std::fill(stage.events.begin(), stage.events.end(), kUnknown);
    std::fill(stage.lanes.begin(), stage.lanes.end(), LaneCursor{});
    stage.bases.assign(1, stage.host);
    stage.crossing.passed.assign(stage.lanes.size(), 0);
    stage.crossing.host_shift_ns = 0;
    Wake(s);
  }
}

// When the first op that has a stream would begin.
TimeNs StageRun::StartOf(size_t s) const {
  const StageLanes& lanes = plan_.stages[s];
  return std::max(stages_[s].host + costs_.span_ns[lanes.first_span],
                  stages_[s].tails[lanes.first_stream]);
}

bool StageRun::RunIteration() {
  while (!work_.empty()) {
    const uint32_t stage = work_.back();
    work_.pop_back();
    stages_[stage].queued = false;
    Advance(stage);
  }
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (!Done(s)) {
      return false;
    }
    const StageLanes& lanes = plan_.stages[s];
    Stage& stage = stages_[s];
    stage.host = stage.bases.back() + costs_.iteration_host_ns[s];
    if (longer_ != nullptr && stage.bases.size() == longer_->cuts[s].epoch + 1) {
      stage.host += stage.crossing.host_shift_ns;
    }
    stage.next_start = StartOf(s);
    PRISM_CHECK_EQ(stage.bases.size(), lanes.syncs.size() + 1);
  }
  return true;
}

void StageRun::Wake(size_t stage) {
  if (!stages_[stage].queued) {
    stages_[stage].queued = true;
    work_.push_back(static_cast<uint32_t>(stage));
  }
}

bool StageRun::Done(size_t s) const {
  for (size_t lane = 0; lane < stages_[s].lanes.size(); ++lane) {
    if (stages_[s].lanes[lane].next < plan_.stages[s].lanes[lane].size()) {
      return false;
    }
  }
  return stages_[s].bases.size() == plan_.stages[s].syncs.size() + 1;
}

void StageRun::Advance(size_t stage) {
  bool moved = true;
  while (moved) {
    moved = AdvanceHost(stage);
    for (uint32_t lane = 0; lane < stages_[stage].lanes.size(); ++lane) {
      moved = AdvanceLane(stage, lane) || moved;
    }
  }
}

bool StageRun::LanePassed(size_t s, uint32_t lane, uint32_t instruction) const {
  const std::vector<uint32_t>& indices = plan_.stages[s].lanes[lane];
  const uint32_t next = stages_[s].lanes[lane].next;
  return next == indices.size() || indices[next] > instruction;
}

// Passes the waits of the host whose end is known.
bool StageRun::AdvanceHost(size_t s) {
  const StageLanes& lanes = plan_.stages[s];
  Stage& stage = stages_[s];
  bool moved = false;
  while (stage.bases.size() <= lanes.syncs.size()) {
    const uint32_t index = lanes.syncs[stage.bases.size() - 1];
    const Instruction& sync = lanes.instructions[index];
    if (longer_ != nullptr && longer_->cuts[s].IsBehind(index) &&
        stage.crossing.passed[0] <= kCut) {
      return moved;
    }
    TimeNs target = 0;
    if (sync.sync == graph::OpKind::kEventSync) {
      target = EventAt(s, sync.event, index);
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
    const DurationNs host_ns = costs_.host_ns[s][index];
    const DurationNs charge = sync.charge == kNone ? 0 : costs_.charge_ns[s][sync.charge];
    const TimeNs reached = HostAt(s, index, static_cast<uint32_t>(stage.bases.size() - 1));
    const TimeNs end = std::max(reached, target) + charge;
    stage.bases.push_back(end - host_ns);
    moved = true;
  }
  return moved;
}

// When the host issues that instruction, or reaches it if it is a wait of the host.
TimeNs StageRun::HostAt(size_t s, uint32_t i, uint32_t epoch) const {
  const TimeNs time = stages_[s].bases[epoch] + costs_.host_ns[s][i];
  const bool behind =
      longer_ != nullptr && epoch == longer_->cuts[s].epoch && longer_->cuts[s].IsBehind(i);
  return behind ? time + stages_[s].crossing.host_shift_ns : time;
}

bool StageRun::AdvanceLane(size_t s, uint32_t lane) {
  const std::vector<uint32_t>& indices = plan_.stages[s].lanes[lane];
  LaneCursor& cursor = stages_[s].lanes[lane];
  const uint32_t before = cursor.next;
  if (longer_ == nullptr) {
    while (cursor.next < indices.size() && Execute(s, indices[cursor.next], &cursor)) {
      ++cursor.next;
    }
    return cursor.next != before;
  }
  const size_t passed = stages_[s].crossing.passed[lane];
  while (CrossCuts(s, lane, cursor.next < indices.size() ? indices[cursor.next] : kNone) &&
         cursor.next < indices.size() && Execute(s, indices[cursor.next], &cursor)) {
    ++cursor.next;
  }
  return cursor.next != before || stages_[s].crossing.passed[lane] != passed;
}

// False when the instruction has to wait.
bool StageRun::Execute(size_t s, uint32_t i, LaneCursor* cursor) {
  const Instruction& instruction = plan_.stages[s].instructions[i];
  Stage& stage = stages_[s];
  if (cursor->holding) {
    return Finish(s, i, cursor);
  }
  if (instruction.epoch >= stage.bases.size()) {
    return false;
  }
  const TimeNs issue = HostAt(s, i, instruction.epoch);
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
        const TimeNs event = EventAt(s, instruction.event, i);
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
      Arrive(s, instruction, reached);
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

void StageRun::Arrive(size_t s, const Instruction& instruction, TimeNs arrival) {
  if (instruction.kind == InstructionKind::kMeeting) {
    Meeting& meeting = meetings_[instruction.index];
    meeting.latest = std::max(meeting.latest, arrival);
    if (--meeting.missing == 0) {
      for (const auto& [stage, transfer] : plan_.meetings[instruction.index].transfers) {
        Wake(static_cast<size_t>(stage));
      }
    }
    return;
  }
  for (const StagePost& post : plan_.peer_groups[instruction.index].posts) {
    const PeerMessage& message = plan_.messages[post.message];
    (post.is_send ? sent_ : received_)[post.message] = arrival;
    const int32_t peer = post.is_send ? message.to : message.from;
    if (static_cast<size_t>(peer) != s) {
      Wake(static_cast<size_t>(peer));
    }
  }
}

bool StageRun::Finish(size_t s, uint32_t i, LaneCursor* cursor) {
  const Instruction& instruction = plan_.stages[s].instructions[i];
  Stage& stage = stages_[s];
  if (instruction.kind == InstructionKind::kMeeting) {
    const Meeting& meeting = meetings_[instruction.index];
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

// A send below the eager size ends by itself, and its bytes travel before the receiver comes.
bool StageRun::FinishGroup(size_t s, uint32_t i, const LaneCursor& cursor) {
  const Instruction& instruction = plan_.stages[s].instructions[i];
  Stage& stage = stages_[s];
  const std::vector<StagePost>& posts = plan_.peer_groups[instruction.index].posts;
  for (const StagePost& post : posts) {
    const bool alone = post.is_send && costs_.message_eager[post.message];
    if (!alone && PeerArrival(s, i, post) == kUnknown) {
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
      const TimeNs peer = PeerArrival(s, i, post);
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
  return stages_[stage].next_start - stages_[stage].start;
}

RankTimes StageRun::Times(size_t stage) const {
  return BreakDown(stages_[stage].activity, {stages_[stage].start, stages_[stage].next_start});
}

}  // namespace prism::replayer
