#include <algorithm>
#include <array>
#include <utility>

#include "graph/base/divide.h"
#include "graph/program/job_groups.h"
#include "slicer/synthesize/blocks/block_writer.h"
#include "slicer/synthesize/data_parallel.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;

// Parameters of a unit that are sharded over one group.
struct ParameterShard {
  GroupAxis axis = GroupAxis::kShard;
  int32_t group_size = 1;
  int32_t replicas = 1;         // HSDP: number of groups that hold the same
  int64_t elements = 0;         // gathered, padded
  std::vector<int64_t> pieces;  // elements of the parameters, on this rank
};

constexpr uint32_t kUnwritten = 0xFFFFFFFFU;
constexpr uint32_t kNoBlock = 0xFFFFFFFEU;

// What units with the same content share: shards, and the blocks written for them.
struct ShardedContent {
  const UnitContent* unit = nullptr;
  std::vector<ParameterShard> shards;
  struct Blocks {
    std::array<uint32_t, 2> gather = {kUnwritten, kUnwritten};  // [1]: after a copy
    uint32_t unshard = kUnwritten;
  };
  std::vector<Blocks> blocks;  // by the turn of the unit's events
};

struct ShardedUnit {
  size_t content = 0;
  uint32_t reduced = 0;  // event slots, by shard: ends of its reductions
  uint32_t reduce = kUnwritten;
};

// FSDP2 (torch.distributed.fsdp.fully_shard): a unit is gathered before its forward pass, and again
// before its backward pass if it was resharded in between; its gradients are scattered after the
// backward pass. Gathers run ahead: in forward because the host does (one buffer, so a gather waits
// until the previous one has been copied out), in backward by `prefetch` units, explicitly.
//
// Events refer to the last one of their kind, so that units with the same content are written as
// the same blocks: `prefetch` + 1 slots are used in turn, so no two units that share one are in
// flight at once, and a gather waits for the latest copy, whichever unit's it is.
class ShardedDataParallel : public DataParallel {
 public:
  explicit ShardedDataParallel(const StageContext& context)
      : context_(context), rank_(*context.rank), turns_(1 + rank_.style.prefetch) {
    for (const ModelChunk& chunk : *context.chunks) {
      units_.emplace_back();
      for (const ChunkUnit& unit : chunk.units) {
        const size_t content = NumberOf(unit.content);
        const EventSlots::Whose place = {static_cast<int64_t>(units_.size()),
                                         static_cast<int64_t>(units_.back().size())};
        units_.back().push_back({content, SlotsOf(content, place)});
      }
      first_unit_.push_back(held_.units.size());
      held_.units.resize(held_.units.size() + chunk.units.size(), ParametersHeld::Of::kShard);
    }
    EventSlots& slots = context.writer->slots();
    gathered_ = slots.Of(EventSlots::Use::kGather, {}, size_t{kMaxShards} * turns_);
    copied_out_ = slots.Of(EventSlots::Use::kCopiedOut, {}, 1);
  }

  void BeginIteration() override {}

  void CallUnit(const UnitCall& call) override {
    const UnitContent& content = *contents_[Unit(call).content].unit;
    Unshard(call);
    if (call.pass == StepKind::kForward) {
      context_.writer->Call(IndexOfCall(content, call.pass));
      Reshard(call, rank_.style.reshard_after_forward && !KeepsGathered(call));
      return;
    }
    Prefetch(call);
    context_.writer->Call(IndexOfCall(content, call.pass));
    const bool last_half = call.pass != StepKind::kInputGradient;
    if (last_half && Reduces(call.microbatch)) {
      Reduce(call);
    }
    if (last_half) {
      Reshard(call, rank_.style.reshard_after_forward || IsLast(call.microbatch));
    }
  }

  void EndBackward() override {}

  void FinishGradients() override {
    OpList ops;
    ForEachShard([&](const ParameterShard& shard, uint32_t reduced) {
      if (shard.group_size > 1 || shard.replicas > 1) {
        ops.WaitSlot(graph::kStageComputeStream, reduced);
      }
    });
    if (!rank_.style.frozen_weights) {
      context_.writer->Emit(ops);
    }
  }

  [[nodiscard]] OptimizerPieces Pieces() const override {
    OptimizerPieces pieces;
    if (rank_.style.frozen_weights) {
      return pieces;
    }
    ForEachShard([&](const ParameterShard& shard, uint32_t /*reduced*/) {
      pieces.decay.insert(pieces.decay.end(), shard.pieces.begin(), shard.pieces.end());
      for (const int64_t elements : shard.pieces) {
        pieces.weights += elements;
      }
    });
    return pieces;
  }

  void FinishIteration() override {}

 private:
  static constexpr uint32_t kMaxShards = 2;  // of a unit: dense parameters, and experts

  [[nodiscard]] BlockTables& Tables() const { return context_.writer->assembly().tables(); }

  [[nodiscard]] ShardedUnit& Unit(const UnitCall& call) {
    return units_[static_cast<size_t>(call.chunk)][call.unit];
  }

  [[nodiscard]] ParametersHeld::Of& HeldOf(const UnitCall& call) {
    return held_.units[first_unit_[static_cast<size_t>(call.chunk)] + call.unit];
  }

  // Calls visit(shard, event of its reduction).
  template <typename Visit>
  void ForEachShard(Visit visit) const {
    for (const std::vector<ShardedUnit>& chunk : units_) {
      for (const ShardedUnit& unit : chunk) {
        uint32_t reduced = unit.reduced;
        for (const ParameterShard& shard : contents_[unit.content].shards) {
          visit(shard, reduced++);
        }
      }
    }
  }

  template <typename Write>
  void EmitOnce(uint32_t* block, Write write) {
    if (*block == kUnwritten) {
      const OpList ops = write();
      *block = ops.empty() ? kNoBlock : context_.writer->assembly().BlockOf(ops);
    }
    if (*block != kNoBlock) {
      context_.writer->Call(*block);
    }
  }

  [[nodiscard]] bool IsLast(int64_t microbatch) const {
    return microbatch == rank_.job.microbatches() - 1;
  }

  // With pipeline stages gradients are reduced once, at the last micro-batch (torch's PipelineStage
  // turns synchronisation off before that); otherwise in every backward pass.
  [[nodiscard]] bool Reduces(int64_t microbatch) const {
    return !rank_.style.frozen_weights && (rank_.job.parallel.pp == 1 || IsLast(microbatch));
  }

  // The last unit's backward pass follows its forward pass immediately: FSDP does not reshard it.
  [[nodiscard]] bool KeepsGathered(const UnitCall& call) const {
    return rank_.job.parallel.pp == 1 &&
           call.unit + 1 == units_[static_cast<size_t>(call.chunk)].size();
  }

  size_t NumberOf(const UnitContent* unit) {
    const auto known =
        std::ranges::find_if(contents_, [&](const auto& content) { return content.unit == unit; });
    if (known != contents_.end()) {
      return static_cast<size_t>(known - contents_.begin());
    }
    contents_.emplace_back();
    contents_.back().unit = unit;
    contents_.back().shards = ShardsOf(unit->blocks.parameters);
    contents_.back().blocks.resize(turns_);
    return contents_.size() - 1;
  }

  // Slots for the ends of the reductions of a unit.
  uint32_t SlotsOf(size_t content, const EventSlots::Whose& unit) {
    return context_.writer->slots().Of(EventSlots::Use::kReduction, unit,
                                       contents_[content].shards.size());
  }

  std::vector<ParameterShard> ShardsOf(const graph::UnitParameters& parameters) {
    const graph::JobGroups groups(rank_.job.parallel, rank_.style.shard_size);
    std::vector<ParameterShard> shards;
    for (const bool expert : {false, true}) {
      ParameterShard shard;
      shard.axis = expert ? GroupAxis::kExpertData : GroupAxis::kShard;
      shard.group_size = groups.Size(shard.axis);
      shard.replicas = expert ? 1 : groups.Size(GroupAxis::kReplicate);
      for (const graph::UnitParameter& parameter : parameters) {
        if (parameter.expert == expert) {
          const int64_t piece = DivideUp<int64_t>(parameter.ElementCount(), shard.group_size);
          shard.pieces.push_back(piece);
          shard.elements += piece * shard.group_size;
        }
      }
      if (shard.elements > 0) {
        shards.push_back(std::move(shard));
      }
    }
    return shards;
  }

  [[nodiscard]] ShardedContent::Blocks& BlocksOf(const UnitCall& call) {
    return contents_[Unit(call).content].blocks[call.unit % turns_];
  }

  // The event of the first gather of a unit; those of its other shards follow.
  [[nodiscard]] uint32_t GatheredBy(const UnitCall& call) const {
    return gathered_ + kMaxShards * static_cast<uint32_t>(call.unit % turns_);
  }

  // Starts the gather of a unit that is neither present nor in flight.
  void StartGather(const UnitCall& call) {
    if (HeldOf(call) == ParametersHeld::Of::kShard) {
      HeldOf(call) = ParametersHeld::Of::kInFlight;
      EmitOnce(&BlocksOf(call).gather[held_.copied_out ? 1 : 0], [&] { return GatherOf(call); });
    }
  }

  [[nodiscard]] OpList GatherOf(const UnitCall& call) {
    OpList ops;
    uint32_t gathered = GatheredBy(call);
    for (const ParameterShard& shard : contents_[Unit(call).content].shards) {
      if (shard.group_size == 1) {
        continue;
      }
      const uint16_t stream = graph::StageStream(shard.axis);
      if (held_.copied_out) {
        ops.WaitSlot(stream, copied_out_);
      }
      const DataType type = rank_.style.fp8_param_gather ? DataType::kFloat8 : rank_.dtype;
      ops.Collective(stream, shard.axis, AllGatherOf(type, shard.elements));
      ops.Record(stream, gathered++);
    }
    return ops;
  }

  // The compute stream waits for the unit's parameters.
  void Unshard(const UnitCall& call) {
    if (HeldOf(call) == ParametersHeld::Of::kGathered) {
      return;
    }
    StartGather(call);
    HeldOf(call) = ParametersHeld::Of::kGathered;
    EmitOnce(&BlocksOf(call).unshard, [&] { return CopyOutOf(call); });
    for (const ParameterShard& shard : contents_[Unit(call).content].shards) {
      held_.copied_out = held_.copied_out || shard.group_size > 1;
    }
  }

  [[nodiscard]] OpList CopyOutOf(const UnitCall& call) {
    OpList ops;
    uint32_t gathered = GatheredBy(call);
    for (const ParameterShard& shard : contents_[Unit(call).content].shards) {
      if (shard.group_size == 1) {
        continue;
      }
      ops.WaitSlot(graph::kStageComputeStream, gathered++);
      BlockWriter copy(&Tables());
      copy.Pointwise("fsdp::split_with_sizes_copy", {Tensor(rank_.dtype, {shard.elements})});
      ops.Append(copy.Finish().program);
      ops.Record(graph::kStageComputeStream, copied_out_);
    }
    return ops;
  }

  void Reshard(const UnitCall& call, bool reshards) {
    if (reshards && HeldOf(call) == ParametersHeld::Of::kGathered) {
      HeldOf(call) = ParametersHeld::Of::kShard;
    }
  }

  void Prefetch(const UnitCall& call) {
    UnitCall ahead = call;
    for (int32_t i = 0; i < rank_.style.prefetch && ahead.unit > 0; ++i) {
      --ahead.unit;
      StartGather(ahead);
    }
  }

  void Reduce(const UnitCall& call) {
    ShardedUnit& unit = Unit(call);
    EmitOnce(&unit.reduce, [&] { return ReductionOf(unit); });
  }

  // Gradients go into one buffer in the order of their shards, then to their owners; HSDP sums the
  // shards of all replicas.
  [[nodiscard]] OpList ReductionOf(const ShardedUnit& unit) const {
    OpList ops;
    uint32_t reduced = unit.reduced;
    for (const ParameterShard& shard : contents_[unit.content].shards) {
      BlockWriter copy(&Tables());
      copy.Pointwise("fsdp::chunk_cat", {Tensor(rank_.gradient, {shard.elements})});
      ops.Append(copy.Finish().program);
      uint16_t stream = graph::kStageComputeStream;
      if (shard.group_size > 1) {
        stream = graph::StageStream(shard.axis);
        ops.Wait(stream, ops.Record(graph::kStageComputeStream));
        ops.Collective(stream, shard.axis, ReduceScatterOf(rank_.gradient, shard.elements));
        ops.Record(stream, reduced);
      }
      if (shard.replicas > 1) {
        const uint16_t replicate = graph::StageStream(GroupAxis::kReplicate);
        ops.Wait(replicate, ops.Record(stream));
        ops.Collective(replicate, GroupAxis::kReplicate,
                       AllReduceOf(rank_.gradient, shard.elements / shard.group_size));
        ops.Record(replicate, reduced);
      }
      ++reduced;
    }
    return ops;
  }

  StageContext context_;
  const RankShape& rank_;
  uint32_t turns_;  // units that have their own events
  std::vector<ShardedContent> contents_;
  std::vector<std::vector<ShardedUnit>> units_;  // by chunk
  std::vector<size_t> first_unit_;               // by chunk: of held units
  uint32_t gathered_ = 0;                        // event slots: of gathers, by turn and shard,
  uint32_t copied_out_ = 0;                      // of the latest copy out of a gather's buffer
};

}  // namespace

std::unique_ptr<DataParallel> MakeShardedDataParallel(const StageContext& context) {
  return std::make_unique<ShardedDataParallel>(context);
}

}  // namespace prism::slicer
