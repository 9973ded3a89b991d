#include "replayer/stages/stage_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "replayer/stages/block_charges.h"
#include "replayer/stages/charge_tracker.h"

namespace prism::replayer {
namespace {

using graph::GroupAxis;

// `more` becomes part of `streams`, ascending.
void AddStreams(const std::vector<uint16_t>& more, std::vector<uint16_t>* streams) {
  std::vector<uint16_t> joint;
  std::set_union(streams->begin(), streams->end(), more.begin(), more.end(),
                 std::back_inserter(joint));
  *streams = std::move(joint);
}

bool FitsOneSegment(std::vector<uint16_t> streams, const std::vector<uint16_t>& more) {
  AddStreams(more, &streams);
  return streams.size() <= kMaxFoldedStreams;
}

// What all stages share while they are laid out.
class Matching {
 public:
  Matching(const graph::ParallelSizes& sizes, StagePlan* plan) : sizes_(sizes), plan_(plan) {}

  uint32_t Post(const graph::PeerTransfer& transfer, int32_t stage) {
    const int32_t step = transfer.peer_slot == graph::SlotOf(graph::PeerSlot::kNext) ? 1 : -1;
    const int32_t peer = (stage + step + sizes_.pp) % sizes_.pp;
    const int32_t from = transfer.is_send ? stage : peer;
    const int32_t to = transfer.is_send ? peer : stage;
    Channel& channel = channels_[{transfer.comm_slot, from, to}];
    size_t& sequence = transfer.is_send ? channel.sent : channel.received;
    if (sequence == channel.messages.size()) {
      channel.messages.push_back(static_cast<uint32_t>(plan_->messages.size()));
      plan_->messages.push_back({transfer.comm_slot, from, to, 0, -1});
    }
    const uint32_t message = channel.messages[sequence++];
    if (transfer.is_send) {
      plan_->messages[message].bytes = transfer.bytes;
    }
    return message;
  }

  uint32_t Meet(uint16_t axis, int32_t stage, uint32_t transfer) {
    std::vector<uint32_t>& meetings = meetings_[axis];
    size_t& sequence = met_[{axis, stage}];
    if (sequence == meetings.size()) {
      meetings.push_back(static_cast<uint32_t>(plan_->meetings.size()));
      plan_->meetings.push_back({static_cast<GroupAxis>(axis) == GroupAxis::kEmbedding
                                     ? 2U
                                     : static_cast<uint32_t>(sizes_.pp),
                                 {}});
    }
    const uint32_t meeting = meetings[sequence++];
    plan_->meetings[meeting].transfers.emplace_back(stage, transfer);
    return meeting;
  }

  [[nodiscard]] Status Check() const {
    for (const auto& [key, channel] : channels_) {
      if (channel.sent != channel.received) {
        return InvalidArgument(fmt::format("stage {} sends {} messages to stage {}, which takes {}",
                                           std::get<1>(key), channel.sent, std::get<2>(key),
                                           channel.received));
      }
    }
    for (const auto& [axis, meetings] : meetings_) {
      for (const uint32_t meeting : meetings) {
        const StageMeeting& met = plan_->meetings[meeting];
        if (met.transfers.size() != met.members) {
          return InvalidArgument(fmt::format("{} of {} stages join a collective of the group {}",
                                             met.transfers.size(), met.members,
                                             graph::GroupAxisName(static_cast<GroupAxis>(axis))));
        }
      }
    }
    return OkStatus();
  }

 private:
  struct Channel {
    std::vector<uint32_t> messages;
    size_t sent = 0;
    size_t received = 0;
  };

  graph::ParallelSizes sizes_;
  StagePlan* plan_;
  std::map<std::tuple<uint16_t, int32_t, int32_t>, Channel> channels_;
  std::map<uint16_t, std::vector<uint32_t>> meetings_;  // by axis, in order
  std::map<std::pair<uint16_t, int32_t>, size_t> met_;  // by axis and stage
};

// Lays out one stage.
class StageLayout {
 public:
  StageLayout(const graph::JobProgram& job, int32_t stage, Matching* matching, StagePlan* plan)
      : job_(job),
        program_(job.stages[static_cast<size_t>(stage)]),
        stage_(stage),
        matching_(matching),
        plan_(plan),
        tracker_(plan->kernel_streams),
        slot_event_(program_.event_slot_count, kNone),
        computed_(graph::kStageStreamCount) {}

  // `parts`: where the parts of each block begin.
  Result<StageLanes> Run(bool fold,
                         const std::vector<uint32_t>& parts,
                         std::map<std::vector<uint32_t>, uint32_t>* segment_ids) {
    segment_ids_ = segment_ids;
    ChooseLanes(parts);
    for (const uint32_t call : program_.calls) {
      for (uint32_t part = parts[call]; part < parts[call + 1]; ++part) {
        PRISM_RETURN_IF_ERROR(AddPart(part, fold));
      }
    }
    CloseSegment();
    lanes_.rest_span = InternSpan(rest_);
    lanes_.event_count = static_cast<uint32_t>(events_.size());
    return std::move(lanes_);
  }

 private:
  struct RecordedEvent {
    uint16_t stream = 0;
    size_t position = 0;
  };

  Status AddPart(uint32_t part, bool fold) {
    const LoweredBlock& block = plan_->blocks[part];
    if (block.ops.empty()) {
      AddRest(block.rest_span);
    } else if (fold && CanFold(part)) {
      Fold(part);
    } else {
      CloseSegment();
      return Inline(block);
    }
    return OkStatus();
  }

  void ChooseLanes(const std::vector<uint32_t>& parts) {
    std::vector<bool> apart(graph::kStageStreamCount);
    std::vector<bool> called(parts.size() - 1);
    for (const uint32_t call : program_.calls) {
      called[call] = true;
    }
    for (uint32_t call = 0; call < called.size(); ++call) {
      for (uint32_t part = parts[call]; called[call] && part < parts[call + 1]; ++part) {
        NoteApart(plan_->blocks[part], &apart);
      }
    }
    apart[graph::kStageComputeStream] = false;
    lanes_.lane_of_stream.assign(graph::kStageStreamCount, 0);
    lanes_.lanes.resize(1);
    for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
      if (apart[stream]) {
        lanes_.lane_of_stream[stream] = static_cast<uint32_t>(lanes_.lanes.size());
        lanes_.lanes.emplace_back();
      }
    }
  }

  void NoteApart(const LoweredBlock& block, std::vector<bool>* apart) const {
    for (const StageOp& op : block.ops) {
      if (op.kind == StageOpKind::kPeerGroup ||
          (op.kind == StageOpKind::kCollective && IsMeeting(op))) {
        (*apart)[op.stream] = true;
      }
    }
  }

  [[nodiscard]] bool IsMeeting(const StageOp& op) const {
    const uint32_t transfer = plan_->tables.collectives[op.index].transfers.front();
    return SpansStages(static_cast<GroupAxis>(plan_->tables.transfers[transfer].axis),
                       job_.job.parallel);
  }

  [[nodiscard]] bool CanFold(uint32_t part) const {
    const LoweredBlock& block = plan_->blocks[part];
    if (!block.closed || block.streams.size() > kMaxFoldedStreams) {
      return false;
    }
    for (const uint16_t stream : block.streams) {
      if (lanes_.lane_of_stream[stream] != 0) {
        return false;
      }
    }
    const std::vector<BlockContext>& contexts = plan_->charges[part].contexts;
    return std::all_of(contexts.begin(), contexts.end(), [&](const BlockContext& context) {
      return !tracker_.Owes(context.event_stream) &&
             (context.computes_before || computed_[context.waiting_stream]);
    });
  }

  void Fold(uint32_t part) {
    const LoweredBlock& block = plan_->blocks[part];
    const std::vector<BlockExport>& exports = plan_->charges[part].exports;
    if (!exports.empty() || !FitsOneSegment(open_streams_, block.streams)) {
      CloseSegment();
    }
    if (open_.empty()) {
      NoteFirst(block.ops.front());
    }
    AddStreams(block.streams, &open_streams_);
    open_.push_back(part);
    for (const StageOp& op : block.ops) {
      computed_[op.stream] =
          computed_[op.stream] || (op.kind == StageOpKind::kWork &&
                                   plan_->tables.works[op.index].kind == graph::OpKind::kKernel);
    }
    if (exports.empty()) {
      return;
    }
    const auto first_mark = static_cast<uint32_t>(lanes_.marks.size());
    for (const BlockExport& left : exports) {
      tracker_.Issue(left.stream, {left.transfer, static_cast<uint32_t>(lanes_.marks.size())});
      lanes_.marks.push_back({left.op});
    }
    CloseSegment();
    lanes_.instructions.back().mark = first_mark;
  }

  void CloseSegment() {
    if (open_.empty()) {
      return;
    }
    const auto [found, inserted] =
        segment_ids_->try_emplace(open_, static_cast<uint32_t>(plan_->segments.size()));
    if (inserted) {
      const auto exports = static_cast<uint32_t>(plan_->charges[open_.front()].exports.size());
      plan_->segments.push_back({open_, exports});
    }
    open_.clear();
    open_streams_.clear();
    Instruction instruction;
    instruction.kind = InstructionKind::kSegment;
    instruction.index = found->second;
    Append(instruction, HostSpan{});
  }

  Status Inline(const LoweredBlock& block) {
    const auto first_event = static_cast<uint32_t>(events_.size());
    events_.resize(events_.size() + block.event_count);
    for (const StageOp& op : block.ops) {
      NoteFirst(op);
      PRISM_RETURN_IF_ERROR(InlineOp(op, first_event, block));
    }
    AddRest(block.rest_span);
    return OkStatus();
  }

  Status InlineOp(const StageOp& op, uint32_t first_event, const LoweredBlock& block) {
    Instruction instruction;
    instruction.stream = op.stream;
    instruction.index = op.index;
    switch (op.kind) {
      case StageOpKind::kWork:
        instruction.kind = InstructionKind::kWork;
        computed_[op.stream] =
            computed_[op.stream] || plan_->tables.works[op.index].kind == graph::OpKind::kKernel;
        break;
      case StageOpKind::kRecord:
        instruction.kind = InstructionKind::kRecord;
        instruction.event = RecordEvent(op, first_event);
        break;
      case StageOpKind::kWait:
        instruction.kind = InstructionKind::kWait;
        instruction.event = EventOf(op, first_event);
        SettleWait(&instruction);
        break;
      case StageOpKind::kCollective:
        PRISM_RETURN_IF_ERROR(AddCollective(op, &instruction));
        break;
      case StageOpKind::kPeerGroup:
        PRISM_RETURN_IF_ERROR(AddPeerGroup(block.program->peer_groups[op.index], &instruction));
        break;
      case StageOpKind::kHostSync:
        instruction.kind = InstructionKind::kHostSync;
        instruction.sync = op.sync;
        instruction.event = EventOf(op, first_event);
        if (op.sync == graph::OpKind::kEventSync && instruction.event == kNone) {
          HostSpan span = plan_->tables.spans[op.span];  // over since an earlier iteration
          AddTo(span, &rest_);
          return OkStatus();
        }
        SettleSync(&instruction);
        break;
    }
    Append(instruction, plan_->tables.spans[op.span]);
    return OkStatus();
  }

  uint32_t RecordEvent(const StageOp& op, uint32_t first_event) {
    uint32_t event = op.event == kNone ? kNone : first_event + op.event;
    if (event == kNone && op.slot != kNone) {
      event = static_cast<uint32_t>(events_.size());
      events_.emplace_back();
    }
    if (op.slot != kNone) {
      slot_event_[op.slot] = event;
    }
    if (event != kNone) {
      events_[event] = {op.stream, tracker_.Position(op.stream)};
    }
    return event;
  }

  [[nodiscard]] uint32_t EventOf(const StageOp& op, uint32_t first_event) const {
    if (op.slot != kNone) {
      return slot_event_[op.slot];
    }
    return op.event == kNone ? kNone : first_event + op.event;
  }

  void SettleWait(Instruction* wait) {
    if (wait->event == kNone || !computed_[wait->stream]) {
      return;
    }
    const RecordedEvent& event = events_[wait->event];
    if (event.stream != wait->stream) {
      Settle(event.stream, event.position, false, wait);
    }
  }

  void SettleSync(Instruction* sync) {
    if (sync->sync == graph::OpKind::kEventSync) {
      const RecordedEvent& event = events_[sync->event];
      Settle(event.stream, event.position, true, sync);
      return;
    }
    for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
      if (sync->sync == graph::OpKind::kDeviceSync || stream == sync->stream) {
        Settle(stream, tracker_.Position(stream), true, sync);
      }
    }
  }

  void Settle(uint16_t stream, size_t position, bool any_stream, Instruction* payer) {
    tracker_.Settle(stream, position, [&](const ChargeTracker::Collective& paid) {
      if (payer->charge == kNone) {
        payer->charge = lanes_.charge_count++;
      }
      StageChargeSource source;
      source.instruction = static_cast<uint32_t>(lanes_.instructions.size());
      source.transfer = paid.transfer;
      source.mark = paid.mark;
      source.collective_stream = stream;
      source.waiting_stream = payer->stream;
      source.any_stream = any_stream;
      lanes_.charge_sources.push_back(source);
    });
  }

  Status AddCollective(const StageOp& op, Instruction* instruction) {
    const std::vector<uint32_t>& transfers = plan_->tables.collectives[op.index].transfers;
    instruction->kind = InstructionKind::kCollective;
    if (IsMeeting(op)) {
      if (transfers.size() > 1) {
        return InvalidArgument("an NCCL group of collectives over several pipeline stages");
      }
      instruction->kind = InstructionKind::kMeeting;
      instruction->index = matching_->Meet(plan_->tables.transfers[transfers.front()].axis, stage_,
                                           transfers.front());
    }
    if (tracker_.Follows(op.stream)) {
      instruction->mark = static_cast<uint32_t>(lanes_.marks.size());
      lanes_.marks.push_back({});
      for (const uint32_t transfer : transfers) {
        tracker_.Issue(op.stream, {transfer, instruction->mark});
      }
    }
    return OkStatus();
  }

  Status AddPeerGroup(const graph::PeerGroup& group, Instruction* instruction) {
    if (job_.job.parallel.pp < 2) {
      return InvalidArgument("a message to a neighbouring stage, but there is one stage only");
    }
    StagePeerGroup posts;
    for (const graph::PeerTransfer& transfer : group.transfers) {
      posts.posts.push_back({matching_->Post(transfer, stage_), transfer.is_send});
    }
    instruction->kind = InstructionKind::kPeerGroup;
    instruction->index = static_cast<uint32_t>(plan_->peer_groups.size());
    plan_->peer_groups.push_back(std::move(posts));
    return OkStatus();
  }

  void Append(Instruction instruction, HostSpan span) {
    AddTo(rest_, &span);
    rest_ = {};
    instruction.span = InternSpan(span);
    instruction.epoch = static_cast<uint32_t>(lanes_.syncs.size());
    const auto index = static_cast<uint32_t>(lanes_.instructions.size());
    if (instruction.kind == InstructionKind::kHostSync) {
      lanes_.syncs.push_back(index);
    } else {
      const uint32_t lane = instruction.kind == InstructionKind::kSegment
                                ? 0
                                : lanes_.lane_of_stream[instruction.stream];
      lanes_.lanes[lane].push_back(index);
    }
    lanes_.instructions.push_back(instruction);
  }

  // The iteration of a rank begins with its first op on a stream. Host waits have none.
  void NoteFirst(const StageOp& op) {
    if (has_first_ || (op.kind == StageOpKind::kHostSync)) {
      return;
    }
    has_first_ = true;
    HostSpan span = plan_->tables.spans[op.span];
    AddTo(rest_, &span);
    lanes_.first_span = InternSpan(span);
    lanes_.first_stream = op.stream;
  }

  static void AddTo(const HostSpan& span, HostSpan* sum) {
    for (size_t kind = 0; kind < span.ops.size(); ++kind) {
      sum->ops[kind] += span.ops[kind];
    }
    sum->gap_ns += span.gap_ns;
  }

  // Blocks of markers alone cost nothing and do not end a segment.
  void AddRest(uint32_t span) {
    if (plan_->tables.spans[span] != HostSpan{}) {
      CloseSegment();
      AddTo(plan_->tables.spans[span], &rest_);
    }
  }

  uint32_t InternSpan(const HostSpan& span) {
    const auto [found, inserted] =
        span_ids_.try_emplace(span, static_cast<uint32_t>(plan_->tables.spans.size()));
    if (inserted) {
      plan_->tables.spans.push_back(span);
    }
    return found->second;
  }

  const graph::JobProgram& job_;
  const graph::StageProgram& program_;
  int32_t stage_;
  Matching* matching_;
  StagePlan* plan_;
  ChargeTracker tracker_;
  std::vector<uint32_t> slot_event_;   // by slot: latest record
  std::vector<RecordedEvent> events_;  // by event of the stage
  std::vector<bool> computed_;         // by stream: a kernel was issued
  std::vector<uint32_t> open_;         // blocks of the segment being collected
  std::vector<uint16_t> open_streams_;
  HostSpan rest_;  // host cost that no instruction holds yet
  bool has_first_ = false;
  std::map<HostSpan, uint32_t> span_ids_;
  std::map<std::vector<uint32_t>, uint32_t>* segment_ids_ = nullptr;
  StageLanes lanes_;
};

}  // namespace

Result<StagePlan> MakeStagePlan(const graph::JobProgram& job, bool fold) {
  StagePlan plan;
  BlockLowering lowering(job);
  PRISM_ASSIGN_OR_RETURN(LoweredBlocks lowered, lowering.Lower());
  plan.blocks = std::move(lowered.parts);
  plan.tables = std::move(lowering.tables());
  plan.kernel_streams = KernelStreams(plan.blocks, plan.tables);
  for (const LoweredBlock& block : plan.blocks) {
    plan.charges.push_back(block.closed ? ChargesOf(block, plan.tables, plan.kernel_streams)
                                        : BlockCharges{});
  }
  Matching matching(job.job.parallel, &plan);
  std::map<std::vector<uint32_t>, uint32_t> segment_ids;
  for (size_t stage = 0; stage < job.stages.size(); ++stage) {
    StageLayout layout(job, static_cast<int32_t>(stage), &matching, &plan);
    PRISM_ASSIGN_OR_RETURN(StageLanes lanes, layout.Run(fold, lowered.begin, &segment_ids));
    plan.stages.push_back(std::move(lanes));
  }
  PRISM_RETURN_IF_ERROR(matching.Check());
  return plan;
}

}  // namespace prism::replayer
