#include "replayer/stages/stage_plan.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "replayer/stages/charge_tracker.h"
#include "replayer/stages/stage_matching.h"

namespace prism::replayer {
namespace {

using graph::GroupAxis;

bool FitsOneSegment(StreamSet streams) {
  return std::popcount(streams) <= static_cast<int>(kMaxFoldedStreams);
}

// What the layout needs to know about a block at every call.
struct BlockStreams {
  StreamSet all = 0;
  StreamSet kernels = 0;   // that hold kernels
  StreamSet apart = 0;     // that wait for other stages
  StreamSet settled = 0;   // that must not owe anything before it
  StreamSet computed = 0;  // that must have computed before it
  StreamSet posting = 0;   // with messages that nothing in the stage waits for
  bool foldable = false;   // as far as can be known without what precedes it
};

// Whether a collective is one over several stages.
bool IsMeeting(const StagePlan& plan, const StageOp& op, const graph::ParallelSizes& sizes) {
  const uint32_t transfer = plan.tables.collectives[op.index].transfers.front();
  return SpansStages(static_cast<GroupAxis>(plan.tables.transfers[transfer].axis), sizes);
}

BlockStreams StreamsOfBlock(const StagePlan& plan,
                            uint32_t index,
                            const graph::ParallelSizes& sizes) {
  const LoweredBlock& block = plan.blocks[index];
  BlockStreams streams;
  for (const uint16_t stream : block.streams) {
    streams.all |= Bit(stream);
  }
  for (const StageOp& op : block.ops) {
    const bool kernel =
        op.kind == StageOpKind::kWork && plan.tables.works[op.index].kind == graph::OpKind::kKernel;
    const bool posts = op.kind == StageOpKind::kPeerGroup && !block.blocking;
    streams.kernels |= kernel ? Bit(op.stream) : 0;
    streams.posting |= posts ? Bit(op.stream) : 0;
    const bool meets = op.kind == StageOpKind::kCollective && IsMeeting(plan, op, sizes);
    streams.apart |= meets ? Bit(op.stream) : 0;
  }
  streams.apart |= streams.posting;
  for (const BlockContext& context : plan.charges[index].contexts) {
    streams.settled |= Bit(context.event_stream);
    streams.computed |= context.computes_before ? 0 : Bit(context.waiting_stream);
  }
  streams.foldable = block.closed && !block.ops.empty() && FitsOneSegment(streams.all);
  return streams;
}

// Ids of runs of blocks, each found from the run without its last block.
class SegmentIds {
 public:
  static constexpr uint32_t kEmptyRun = 0;

  uint32_t Append(uint32_t run, uint32_t block) {
    if (latest_[run].block != block) {
      const auto next = static_cast<uint32_t>(segments_.size());
      const auto [found, inserted] = runs_.try_emplace(uint64_t{run} << 32U | block, next);
      if (inserted) {
        segments_.push_back(kNone);
        latest_.emplace_back();
      }
      latest_[run] = {block, found->second};
    }
    return latest_[run].next;
  }

  // The segment of a run; kNone until it is set.
  uint32_t& SegmentOf(uint32_t run) { return segments_[run]; }

 private:
  struct Step {
    uint32_t block = kNone;
    uint32_t next = 0;  // run
  };

  std::unordered_map<uint64_t, uint32_t> runs_;  // by run and block; never iterated
  std::vector<Step> latest_ = {{}};              // by run: usually the next one as well
  std::vector<uint32_t> segments_ = {kNone};     // by run
};

// Lays out one stage.
class StageLayout {
 public:
  StageLayout(const graph::JobProgram& job,
              int32_t stage,
              const std::vector<BlockStreams>& streams,
              StageMatching* matching,
              StagePlan* plan)
      : job_(job),
        streams_(streams),
        program_(job.stages[static_cast<size_t>(stage)]),
        stage_(stage),
        matching_(matching),
        plan_(plan),
        tracker_(plan->kernel_streams),
        slot_event_(program_.event_slot_count, kNone) {}

  // `parts`: where the parts of each block begin.
  Result<StageLanes> Run(bool fold, const std::vector<uint32_t>& parts, SegmentIds* segment_ids) {
    segment_ids_ = segment_ids;
    ChooseLanes(parts);
    auto round = program_.rounds.begin();
    for (uint32_t i = 0; i < program_.calls.size(); ++i) {
      if (round != program_.rounds.end() && *round == i) {
        CloseSegment();
        lanes_.rounds.push_back(static_cast<uint32_t>(lanes_.instructions.size()));
        ++round;
      }
      const uint32_t call = program_.calls[i];
      for (uint32_t part = parts[call]; part < parts[call + 1]; ++part) {
        PRISM_RETURN_IF_ERROR(AddPart(part, fold));
      }
    }
    CloseSegment();
    lanes_.rest_span = rest_;
    lanes_.event_count = static_cast<uint32_t>(events_.size());
    return std::move(lanes_);
  }

 private:
  struct RecordedEvent {
    uint16_t stream = 0;
    size_t position = 0;
  };

  Status AddPart(uint32_t part, bool fold) {
    if (fold && CanFold(streams_[part])) {
      Fold(part);
      return OkStatus();
    }
    const LoweredBlock& block = plan_->blocks[part];
    if (block.ops.empty()) {
      AddRest(block.rest_span);
      return OkStatus();
    }
    CloseSegment();
    return Inline(block);
  }

  void ChooseLanes(const std::vector<uint32_t>& parts) {
    std::vector<bool> called(parts.size() - 1);
    for (const uint32_t call : program_.calls) {
      called[call] = true;
    }
    for (uint32_t call = 0; call < called.size(); ++call) {
      for (uint32_t part = parts[call]; called[call] && part < parts[call + 1]; ++part) {
        apart_ |= streams_[part].apart;
      }
    }
    apart_ &= ~Bit(graph::kStageComputeStream);
    lanes_.lane_of_stream.assign(graph::kStageStreamCount, 0);
    lanes_.lanes.resize(1);
    for (uint16_t stream = 0; stream < graph::kStageStreamCount; ++stream) {
      if ((apart_ & Bit(stream)) != 0) {
        lanes_.lane_of_stream[stream] = static_cast<uint32_t>(lanes_.lanes.size());
        lanes_.lanes.emplace_back();
      }
    }
  }

  [[nodiscard]] bool CanFold(const BlockStreams& block) const {
    return block.foldable && (block.all & apart_) == 0 && (block.settled & tracker_.owing()) == 0 &&
           (block.computed & ~computed_) == 0;
  }

  void Fold(uint32_t part) {
    const std::vector<BlockExport>& exports = plan_->charges[part].exports;
    if (!exports.empty() || !FitsOneSegment(open_streams_ | streams_[part].all)) {
      CloseSegment();
    }
    if (open_.empty()) {
      NoteFirst(plan_->blocks[part].ops.front());
    }
    open_streams_ |= streams_[part].all;
    open_run_ = segment_ids_->Append(open_run_, part);
    open_.push_back(part);
    computed_ |= streams_[part].kernels;
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
    uint32_t& segment = segment_ids_->SegmentOf(open_run_);
    if (segment == kNone) {
      segment = static_cast<uint32_t>(plan_->segments.size());
      const auto exports = static_cast<uint32_t>(plan_->charges[open_.front()].exports.size());
      plan_->segments.push_back({open_, exports});
    }
    open_.clear();
    open_run_ = SegmentIds::kEmptyRun;
    open_streams_ = 0;
    Instruction instruction;
    instruction.kind = InstructionKind::kSegment;
    instruction.index = segment;
    Append(instruction, SpanTable::kEmptySpan);
  }

  Status Inline(const LoweredBlock& block) {
    const auto first_event = static_cast<uint32_t>(events_.size());
    events_.resize(events_.size() + block.event_count);
    for (const StageOp& op : block.ops) {
      NoteFirst(op);
      for (uint32_t time = 0; time < op.times; ++time) {
        PRISM_RETURN_IF_ERROR(InlineOp(op, first_event, block));
      }
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
        computed_ |=
            plan_->tables.works[op.index].kind == graph::OpKind::kKernel ? Bit(op.stream) : 0;
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
        PRISM_RETURN_IF_ERROR(
            AddPeerGroup(job_.blocks[block.program].peer_groups[op.index], &instruction));
        break;
      case StageOpKind::kHostSync:
        instruction.kind = InstructionKind::kHostSync;
        instruction.sync = op.sync;
        instruction.event = EventOf(op, first_event);
        if (op.sync == graph::OpKind::kEventSync && instruction.event == kNone) {
          AddRest(op.span);  // complete since an earlier iteration
          return OkStatus();
        }
        SettleSync(&instruction);
        break;
    }
    Append(instruction, op.span);
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
    if (wait->event == kNone || (computed_ & Bit(wait->stream)) == 0) {
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
    if (IsMeeting(*plan_, op, job_.job.parallel)) {
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
      const uint32_t message = matching_->Post(transfer, stage_);
      plan_->messages[message].instructions[transfer.is_send ? 1 : 0] =
          static_cast<uint32_t>(lanes_.instructions.size());
      posts.posts.push_back({message, transfer.is_send});
    }
    instruction->kind = InstructionKind::kPeerGroup;
    instruction->index = static_cast<uint32_t>(plan_->peer_groups.size());
    plan_->peer_groups.push_back(std::move(posts));
    return OkStatus();
  }

  void Append(Instruction instruction, uint32_t span) {
    instruction.span =
        plan_->tables.spans.InternSum(std::exchange(rest_, SpanTable::kEmptySpan), span);
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
    lanes_.first_span = plan_->tables.spans.InternSum(rest_, op.span);
    lanes_.first_stream = op.stream;
  }

  // Blocks with only markers cost nothing and do not end a segment.
  void AddRest(uint32_t span) {
    if (span != SpanTable::kEmptySpan) {
      CloseSegment();
      rest_ = plan_->tables.spans.InternSum(rest_, span);
    }
  }

  const graph::JobProgram& job_;
  const std::vector<BlockStreams>& streams_;  // by block
  const graph::StageProgram& program_;
  int32_t stage_;
  StageMatching* matching_;
  StagePlan* plan_;
  ChargeTracker tracker_;
  std::vector<uint32_t> slot_event_;   // by slot: latest record
  std::vector<RecordedEvent> events_;  // by event of the stage
  StreamSet apart_ = 0;                // with their own lane
  StreamSet computed_ = 0;             // on which a kernel was issued
  std::vector<uint32_t> open_;         // blocks of the segment being collected
  uint32_t open_run_ = SegmentIds::kEmptyRun;
  StreamSet open_streams_ = 0;
  uint32_t rest_ = SpanTable::kEmptySpan;  // host cost not yet in any instruction
  bool has_first_ = false;
  SegmentIds* segment_ids_ = nullptr;
  StageLanes lanes_;
};

}  // namespace

Result<StagePlan> MakeStagePlan(const graph::JobProgram& job, bool fold) {
  StagePlan plan;
  PRISM_ASSIGN_OR_RETURN(LoweredBlocks lowered, LowerBlocks(job, &plan.tables));
  plan.blocks = std::move(lowered.parts);
  plan.parts = std::move(lowered.begin);
  plan.kernel_streams = KernelStreams(plan.blocks, plan.tables);
  for (const LoweredBlock& block : plan.blocks) {
    plan.charges.push_back(block.closed ? ChargesOf(block, plan.tables, plan.kernel_streams)
                                        : BlockCharges{});
  }
  StageMatching matching(job.job.parallel, &plan);
  SegmentIds segment_ids;
  std::vector<BlockStreams> streams;
  for (uint32_t block = 0; block < plan.blocks.size(); ++block) {
    streams.push_back(StreamsOfBlock(plan, block, job.job.parallel));
  }
  for (size_t stage = 0; stage < job.stages.size(); ++stage) {
    StageLayout layout(job, static_cast<int32_t>(stage), streams, &matching, &plan);
    PRISM_ASSIGN_OR_RETURN(StageLanes lanes, layout.Run(fold, plan.parts, &segment_ids));
    plan.stages.push_back(std::move(lanes));
  }
  PRISM_RETURN_IF_ERROR(matching.Check());
  return plan;
}

}  // namespace prism::replayer
