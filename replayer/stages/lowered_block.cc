#include "replayer/stages/lowered_block.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "graph/base/content_hash.h"
#include "graph/base/intern.h"
#include "graph/program/program_cuts.h"

namespace prism::replayer {

using graph::GroupAxis;
using graph::OpKind;

namespace {

bool IsHostWait(OpKind kind) {
  return kind == OpKind::kEventSync || kind == OpKind::kStreamSync || kind == OpKind::kDeviceSync;
}

// Whether the next thing issued after these messages is a wait of compute for them: then nothing
// else is affected by their delaying what is issued later.
bool IsBlocking(const graph::Program& program, uint32_t group) {
  const uint16_t stream = program.stream[group];
  for (uint32_t op = group + 1; op < program.size(); ++op) {
    if (program.kind[op] == OpKind::kEventWait) {
      const uint32_t record = program.dep[op];
      return program.stream[op] == graph::kStageComputeStream && record != graph::kNoDep &&
             record > group && program.stream[record] == stream;
    }
    const bool records = program.kind[op] == OpKind::kEventRecord && program.stream[op] == stream;
    if (!records && program.kind[op] != OpKind::kMarker) {
      return false;
    }
  }
  return false;
}

bool IsEvent(OpKind kind) {
  return kind == OpKind::kEventRecord || kind == OpKind::kEventWait || kind == OpKind::kEventSync;
}

struct WorkItemHash {
  size_t operator()(const WorkItem& item) const {
    ContentHash hash;
    for (const int64_t number : {static_cast<int64_t>(item.kind), int64_t{item.direction},
                                 int64_t{item.signature}, item.bytes, item.fixed_ns}) {
      hash.Add(number);
    }
    return hash.Digest();
  }
};

struct TransferItemHash {
  size_t operator()(const TransferItem& item) const {
    ContentHash hash;
    for (const int64_t number :
         {int64_t{item.axis}, static_cast<int64_t>(item.shape.kind),
          static_cast<int64_t>(item.shape.dtype), item.shape.bytes, item.fixed_ns}) {
      hash.Add(number);
    }
    return hash.Digest();
  }
};

struct CollectiveCallsHash {
  size_t operator()(const CollectiveCalls& calls) const {
    ContentHash hash;
    for (const uint32_t transfer : calls.transfers) {
      hash.Add(transfer);
    }
    return hash.Digest();
  }
};

class BlockLowering {
 public:
  // `tables` outlives the lowering.
  BlockLowering(const graph::ParallelSizes& sizes, LoweredTables* tables)
      : sizes_(sizes), tables_(*tables) {}

  Result<LoweredBlocks> Lower(const graph::JobProgram& job) {
    LoweredBlocks blocks;
    for (uint32_t b = 0; b < job.blocks.size(); ++b) {
      const graph::Program& program = job.blocks[b];
      const std::vector<uint32_t> cuts = CutsOf(program);
      event_of_.assign(program.size(), kNone);
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        PRISM_ASSIGN_OR_RETURN(LoweredBlock part, LowerPart(program, cuts[i], cuts[i + 1]));
        part.program = b;
        blocks.parts.push_back(std::move(part));
      }
      blocks.begin.push_back(static_cast<uint32_t>(blocks.parts.size()));
    }
    return blocks;
  }

 private:
  Result<LoweredBlock> LowerPart(const graph::Program& program, uint32_t begin, uint32_t end) {
    LoweredBlock block;
    program_ = &program;
    span_ = {};
    span_size_ = 0;
    streams_ = 0;
    constexpr uint32_t kUsualOps = 32;  // without repeated ones
    block.ops.reserve(std::min(end - begin, kUsualOps));
    for (uint32_t op = begin; op < end; ++op) {
      const bool waits = IsEvent(program.kind[op]) && program.kind[op] != OpKind::kEventRecord;
      const uint32_t dep = waits ? program.dep[op] : graph::kNoDep;
      if (dep != graph::kNoDep && event_of_[dep] == kNone) {
        event_of_[dep] = block.event_count++;
      }
    }
    for (uint32_t op = begin; op < end; ++op) {
      if (op == begin || !AddAgain(op, &block)) {
        PRISM_RETURN_IF_ERROR(AddOp(op, &block));
      }
    }
    block.rest_span = InternSpan();
    block.blocking =
        end - begin == 1 && program.kind[begin] == OpKind::kPeerGroup && IsBlocking(program, begin);
    block.streams.reserve(static_cast<size_t>(std::popcount(streams_)));
    for (StreamSet left = streams_; left != 0; left &= left - 1) {
      block.streams.push_back(static_cast<uint16_t>(std::countr_zero(left)));
    }
    return block;
  }

  // Where parts begin, and the end: as closely around open ops as is possible given events that are
  // recorded in one part and waited for in another.
  [[nodiscard]] std::vector<uint32_t> CutsOf(const graph::Program& program) const {
    uint32_t first_open = 0;
    while (first_open < program.size() && !IsOpen(program, first_open)) {
      ++first_open;
    }
    if (first_open == program.size()) {
      return {0, program.size()};
    }
    const std::vector<bool> possible = graph::CutPlaces(program);
    std::vector<uint32_t> cuts = {0};
    uint32_t last_possible = 0;
    bool open = false;  // the part being collected
    for (uint32_t op = 0; op < program.size(); ++op) {
      last_possible = possible[op] ? op : last_possible;
      if (open && last_possible == op) {
        cuts.push_back(op);
        open = false;
      }
      if (!open && op >= first_open && IsOpen(program, op)) {
        open = true;
        if (last_possible > cuts.back()) {
          cuts.push_back(last_possible);
        }
      }
    }
    cuts.push_back(program.size());
    return cuts;
  }

  // Ops that cannot be folded.
  [[nodiscard]] bool IsOpen(const graph::Program& program, uint32_t op) const {
    const OpKind kind = program.kind[op];
    if (kind == OpKind::kCollective) {
      return SpansStages(static_cast<GroupAxis>(program.comm_slot[op]), sizes_);
    }
    return IsHostWait(kind) || kind == OpKind::kPeerGroup ||
           (IsEvent(kind) && program.value[op] != 0);
  }

  // Adds a kernel that repeats the previous op to it; false for any other op.
  bool AddAgain(uint32_t op, LoweredBlock* block) {
    const graph::Program& program = *program_;
    const uint8_t flags = program.flags[op];
    if (program.kind[op] != OpKind::kKernel || program.kind[op - 1] != OpKind::kKernel ||
        program.signature[op] != program.signature[op - 1] || flags != program.flags[op - 1] ||
        program.stream[op] != program.stream[op - 1] || (flags & graph::kDurationFixed) != 0) {
      return false;
    }
    StageOp& previous = block->ops.back();
    const bool free = (flags & graph::kLaunchedWithPrevious) != 0;
    if (previous.span != (free ? SpanTable::kEmptySpan : tables_.spans.InternOp(OpKind::kKernel))) {
      return false;
    }
    ++previous.times;
    return true;
  }

  Status AddOp(uint32_t op, LoweredBlock* block) {
    const graph::Program& program = *program_;
    const OpKind kind = program.kind[op];
    if ((program.flags[op] & graph::kLaunchedWithPrevious) != 0) {
      // Costs the host nothing.
    } else if (kind == OpKind::kHostGap) {
      span_.gap_ns += program.value[op];
      span_size_ += 2;
    } else if (kind != OpKind::kMarker) {
      ++span_.ops[static_cast<size_t>(kind)];
      ++span_size_;
      span_op_ = kind;
    }
    switch (kind) {
      case OpKind::kKernel:
      case OpKind::kMemcpy:
      case OpKind::kMemset: {
        const bool fixed = (program.flags[op] & graph::kDurationFixed) != 0;
        if (kind == OpKind::kKernel && !fixed) {
          Push(op, StageOpKind::kWork, block).index = InternKernel(program.signature[op]);
          return OkStatus();
        }
        WorkItem item;
        item.kind = kind;
        item.direction = program.flags[op] & (graph::kHostToDevice | graph::kDeviceToHost);
        item.bytes = fixed ? 0 : program.value[op];
        item.fixed_ns = fixed ? program.value[op] : -1;
        Push(op, StageOpKind::kWork, block).index = InternWork(item);
        return OkStatus();
      }
      case OpKind::kEventRecord:
        return AddEvent(op, &Push(op, StageOpKind::kRecord, block), block);
      case OpKind::kEventWait:
        return AddEvent(op, &Push(op, StageOpKind::kWait, block), block);
      case OpKind::kCollective:
        AddCollective(op, block);
        return OkStatus();
      case OpKind::kPeerGroup:
        if ((program.flags[op] & graph::kDurationFixed) != 0) {
          return InvalidArgument("messages of fixed duration in a block");
        }
        Push(op, StageOpKind::kPeerGroup, block).index = program.signature[op];
        block->closed = false;
        return OkStatus();
      case OpKind::kEventSync:
      case OpKind::kStreamSync:
      case OpKind::kDeviceSync: {
        StageOp& sync = Push(op, StageOpKind::kHostSync, block);
        sync.sync = kind;
        block->closed = false;
        return kind == OpKind::kEventSync ? AddEvent(op, &sync, block) : OkStatus();
      }
      case OpKind::kHostGap:
      case OpKind::kSegmentAlloc:
      case OpKind::kSegmentFree:
      case OpKind::kMarker:
        return OkStatus();
    }
    return OkStatus();
  }

  StageOp& Push(uint32_t op, StageOpKind kind, LoweredBlock* block) {
    StageOp stage_op;
    stage_op.kind = kind;
    stage_op.stream = program_->stream[op];
    stage_op.span = InternSpan();
    block->ops.push_back(stage_op);
    if (kind != StageOpKind::kHostSync) {
      streams_ |= Bit(stage_op.stream);
    }
    return block->ops.back();
  }

  // A call joins the previous one on its stream if both were issued as one NCCL group; the group is
  // then issued with its last call.
  void AddCollective(uint32_t op, LoweredBlock* block) {
    const graph::Program& program = *program_;
    TransferItem item;
    item.axis = program.comm_slot[op];
    item.shape = program.collectives[program.signature[op]];
    item.fixed_ns = (program.flags[op] & graph::kDurationFixed) != 0 ? program.value[op] : -1;
    const uint32_t transfer = InternTransfer(item);
    const bool joins = op > 0 && program.kind[op - 1] == OpKind::kCollective &&
                       program.stream[op - 1] == program.stream[op] &&
                       (program.flags[op - 1] & graph::kGroupedWithNext) != 0;
    if (joins) {
      CollectiveCalls calls = tables_.collectives[block->ops.back().index];
      // The group's host cost ends with this call.
      HostSpan joint = tables_.spans[block->ops.back().span];
      const bool free = (program.flags[op] & graph::kLaunchedWithPrevious) != 0;
      joint.ops[static_cast<size_t>(OpKind::kCollective)] += free ? 0 : 1;
      block->ops.pop_back();
      span_ = joint;
      span_size_ = 2;
      calls.transfers.push_back(transfer);
      Push(op, StageOpKind::kCollective, block).index = InternCalls(calls);
    } else {
      Push(op, StageOpKind::kCollective, block).index = InternCall(transfer);
    }
    if (SpansStages(static_cast<GroupAxis>(item.axis), sizes_)) {
      block->closed = false;
    }
  }

  Status AddEvent(uint32_t op, StageOp* stage_op, LoweredBlock* block) {
    const int64_t value = program_->value[op];
    if (value < 0 || value > UINT16_MAX) {
      return InvalidArgument(fmt::format("a block names event slot {}", value - 1));
    }
    if (value > 0) {
      stage_op->slot = static_cast<uint32_t>(value - 1);
      block->closed = false;
    }
    const uint32_t dep = program_->dep[op];
    if (stage_op->kind == StageOpKind::kRecord) {
      stage_op->event = event_of_[op];
    } else if (dep != graph::kNoDep) {
      stage_op->event = event_of_[dep];
    }
    return OkStatus();
  }

  uint32_t InternSpan() {
    const uint32_t size = std::exchange(span_size_, 0);
    if (size == 0) {
      return SpanTable::kEmptySpan;
    }
    if (size == 1) {
      span_.ops[static_cast<size_t>(span_op_)] = 0;
      return tables_.spans.InternOp(span_op_);
    }
    return tables_.spans.Intern(std::exchange(span_, {}));
  }

  uint32_t InternKernel(uint32_t signature) {
    if (signature >= kernel_ids_.size()) {
      kernel_ids_.resize(size_t{signature} + 1, kNone);
    }
    if (kernel_ids_[signature] == kNone) {
      WorkItem item;
      item.kind = OpKind::kKernel;
      item.signature = signature;
      kernel_ids_[signature] = InternWork(item);
    }
    return kernel_ids_[signature];
  }

  uint32_t InternWork(const WorkItem& item) { return InternValue(tables_.works, work_ids_, item); }

  uint32_t InternTransfer(const TransferItem& item) {
    return InternValue(tables_.transfers, transfer_ids_, item);
  }

  uint32_t InternCalls(const CollectiveCalls& calls) {
    return InternValue(tables_.collectives, calls_ids_, calls);
  }

  uint32_t InternCall(uint32_t transfer) {
    if (transfer >= call_ids_.size()) {
      call_ids_.resize(size_t{transfer} + 1, kNone);
    }
    if (call_ids_[transfer] == kNone) {
      call_ids_[transfer] = InternCalls({{transfer}});
    }
    return call_ids_[transfer];
  }

  graph::ParallelSizes sizes_;
  const graph::Program* program_ = nullptr;  // being lowered
  HostSpan span_;                            // since the last step
  uint32_t span_size_ = 0;                   // its ops; more if made from something else
  graph::OpKind span_op_ = {};               // the latest of them
  std::vector<uint32_t> event_of_;           // by op of the block: event of its part
  StreamSet streams_ = 0;                    // of the part
  LoweredTables& tables_;
  std::vector<uint32_t> kernel_ids_;  // works that are kernels, by signature
  std::unordered_map<WorkItem, uint32_t, WorkItemHash> work_ids_;  // never iterated
  std::unordered_map<TransferItem, uint32_t, TransferItemHash> transfer_ids_;
  std::unordered_map<CollectiveCalls, uint32_t, CollectiveCallsHash> calls_ids_;
  std::vector<uint32_t> call_ids_;  // of single calls, by transfer
};

}  // namespace

uint32_t SpanTable::Intern(const HostSpan& span) {
  return InternValue(spans_, ids_, span);
}

uint32_t SpanTable::InternOp(graph::OpKind kind) {
  uint32_t& id = of_ops_[static_cast<size_t>(kind)];
  if (id == kNone) {
    HostSpan span;
    span.ops[static_cast<size_t>(kind)] = 1;
    id = Intern(span);
  }
  return id;
}

uint32_t SpanTable::InternSum(uint32_t first, uint32_t second) {
  if (first == kEmptySpan || second == kEmptySpan) {
    return first == kEmptySpan ? second : first;
  }
  HostSpan sum = spans_[first];
  for (size_t kind = 0; kind < sum.ops.size(); ++kind) {
    sum.ops[kind] += spans_[second].ops[kind];
  }
  sum.gap_ns += spans_[second].gap_ns;
  return Intern(sum);
}

// Computed for every op of a block: a sum of products that do not depend on each other.
size_t SpanTable::SpanHash::operator()(const HostSpan& span) const {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15U;
  uint64_t sum = static_cast<uint64_t>(span.gap_ns) * kOdd;
  for (size_t kind = 0; kind < span.ops.size(); ++kind) {
    sum += span.ops[kind] * (kOdd >> kind | 1U);
  }
  return static_cast<size_t>(sum ^ sum >> 29U);
}

bool SpansStages(GroupAxis axis, const graph::ParallelSizes& sizes) {
  switch (axis) {
    case GroupAxis::kPipeline:
    case GroupAxis::kPipelineForward:
    case GroupAxis::kPipelineBackward:
    case GroupAxis::kEmbedding:
    case GroupAxis::kModel:
    case GroupAxis::kWorld:
      return sizes.pp > 1;
    default:
      return false;
  }
}

Result<LoweredBlocks> LowerBlocks(const graph::JobProgram& job, LoweredTables* tables) {
  return BlockLowering(job.job.parallel, tables).Lower(job);
}

}  // namespace prism::replayer
