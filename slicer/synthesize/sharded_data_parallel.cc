#include <algorithm>
#include <map>
#include <utility>

#include "graph/base/divide.h"
#include "graph/job_groups.h"
#include "slicer/synthesize/data_parallel.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;

// Parameters of one unit that are sharded over one group.
struct ParameterShard {
  GroupAxis axis = GroupAxis::kShard;
  int32_t group_size = 1;
  int32_t replicas = 1;         // HSDP: groups that hold the same
  int64_t elements = 0;         // gathered, padded
  uint32_t gathered = 0;        // event slots: end of the gather,
  uint32_t copied_out = 0;      // of the copy out of its buffer,
  uint32_t reduced = 0;         // of the reduction
  std::vector<int64_t> pieces;  // elements of the parameters, on this rank
};

constexpr uint32_t kUnwritten = 0xFFFFFFFFU;
constexpr uint32_t kNoBlock = 0xFFFFFFFEU;

// With the blocks that were written for it.
struct ShardedUnit {
  std::vector<ParameterShard> shards;
  std::map<uint32_t, uint32_t> gathers;  // by the event that they wait for
  uint32_t unshard = kUnwritten;
  uint32_t reduce = kUnwritten;
};

// FSDP2 (torch.distributed.fsdp.fully_shard): a unit is gathered in front of its forward pass, and
// again in front of its backward pass if it was resharded in between; its gradients are scattered
// behind the backward pass. Gathers run ahead: forward because the host does (one buffer, so a
// gather waits until the one before was copied out), backward `prefetch` units by request.
class ShardedDataParallel : public DataParallel {
 public:
  explicit ShardedDataParallel(const StageContext& context)
      : context_(context), rank_(*context.rank) {
    for (const ModelChunk& chunk : *context.chunks) {
      first_unit_.push_back(units_.size());
      for (const ChunkUnit& unit : chunk.units) {
        units_.emplace_back();
        units_.back().shards = ShardsOf(unit.content->blocks.parameters);
      }
    }
    held_.units.resize(units_.size(), ParametersHeld::Of::kShard);
  }

  void BeginIteration() override {}

  void CallUnit(const UnitCall& call) override {
    const UnitContent& content = *Unit(call).content;
    if (call.pass == StepKind::kForward) {
      Unshard(IndexOf(call));
      context_.writer->Call(IndexOfCall(content, call.pass));
      Reshard(call, rank_.style.reshard_after_forward && !KeepsGathered(call));
      return;
    }
    Unshard(IndexOf(call));
    Prefetch(call);
    context_.writer->Call(IndexOfCall(content, call.pass));
    const bool last_half = call.pass != StepKind::kInputGradient;
    if (last_half && Reduces(call)) {
      Reduce(&units_[IndexOf(call)]);
    }
    if (last_half) {
      Reshard(call, rank_.style.reshard_after_forward || IsLastMicrobatch(call));
    }
  }

  void FinishGradients() override {
    OpList ops;
    for (const ShardedUnit& unit : units_) {
      for (const ParameterShard& shard : unit.shards) {
        if (shard.group_size > 1 || shard.replicas > 1) {
          ops.WaitSlot(graph::kStageComputeStream, shard.reduced);
        }
      }
    }
    if (!rank_.style.frozen_weights) {
      context_.writer->Emit(ops);
    }
  }

  [[nodiscard]] OptimizerPieces Pieces() const override {
    OptimizerPieces pieces;
    if (rank_.style.frozen_weights) {
      return pieces;
    }
    for (const ShardedUnit& unit : units_) {
      for (const ParameterShard& shard : unit.shards) {
        pieces.decay.insert(pieces.decay.end(), shard.pieces.begin(), shard.pieces.end());
        for (const int64_t elements : shard.pieces) {
          pieces.weights += elements;
        }
      }
    }
    return pieces;
  }

  void FinishIteration() override {}

 private:
  [[nodiscard]] BlockTables& Tables() const { return context_.writer->assembly().tables(); }

  [[nodiscard]] const ChunkUnit& Unit(const UnitCall& call) const {
    return (*context_.chunks)[static_cast<size_t>(call.chunk)].units[call.unit];
  }

  [[nodiscard]] size_t IndexOf(const UnitCall& call) const {
    return first_unit_[static_cast<size_t>(call.chunk)] + call.unit;
  }

  template <typename Write>
  void EmitOnce(uint32_t* block, Write write) {
    if (*block == kUnwritten) {
      const OpList ops = write();
      *block = ops.program().size() > 0 ? context_.writer->assembly().BlockOf(ops) : kNoBlock;
    }
    if (*block != kNoBlock) {
      context_.writer->Call(*block);
    }
  }

  [[nodiscard]] bool IsLastMicrobatch(const UnitCall& call) const {
    return call.microbatch == rank_.job.microbatches() - 1;
  }

  // With pipeline stages gradients are reduced once, with the last micro-batch (torch's
  // PipelineStage turns synchronisation off before that); else in every backward pass.
  [[nodiscard]] bool Reduces(const UnitCall& call) const {
    return !rank_.style.frozen_weights && (rank_.job.parallel.pp == 1 || IsLastMicrobatch(call));
  }

  // The last unit's backward pass follows its forward pass at once: FSDP does not reshard it.
  [[nodiscard]] bool KeepsGathered(const UnitCall& call) const {
    return rank_.job.parallel.pp == 1 &&
           call.unit + 1 == (*context_.chunks)[static_cast<size_t>(call.chunk)].units.size();
  }

  std::vector<ParameterShard> ShardsOf(const std::vector<BlockParameter>& parameters) {
    const graph::JobGroups groups(rank_.job.parallel, rank_.style.shard_size);
    std::vector<ParameterShard> shards;
    for (const bool expert : {false, true}) {
      ParameterShard shard;
      shard.axis = expert ? GroupAxis::kExpertData : GroupAxis::kShard;
      shard.group_size = groups.Size(shard.axis);
      shard.replicas = expert ? 1 : groups.Size(GroupAxis::kReplicate);
      for (const BlockParameter& parameter : parameters) {
        if (parameter.expert == expert) {
          const int64_t piece = DivideUp<int64_t>(parameter.ElementCount(), shard.group_size);
          shard.pieces.push_back(piece);
          shard.elements += piece * shard.group_size;
        }
      }
      if (shard.elements > 0) {
        shard.gathered = context_.writer->NewEventSlot();
        shard.copied_out = context_.writer->NewEventSlot();
        shard.reduced = context_.writer->NewEventSlot();
        shards.push_back(std::move(shard));
      }
    }
    return shards;
  }

  // Starts the gather of a unit that is neither there nor on its way.
  void StartGather(size_t unit) {
    if (held_.units[unit] != ParametersHeld::Of::kShard) {
      return;
    }
    held_.units[unit] = ParametersHeld::Of::kInFlight;
    uint32_t& gather =
        units_[unit].gathers.try_emplace(held_.last_copy_out, kUnwritten).first->second;
    EmitOnce(&gather, [&] { return GatherOf(units_[unit]); });
  }

  [[nodiscard]] OpList GatherOf(const ShardedUnit& unit) const {
    OpList ops;
    for (const ParameterShard& shard : unit.shards) {
      if (shard.group_size == 1) {
        continue;
      }
      const uint16_t stream = graph::StageStream(shard.axis);
      if (held_.last_copy_out != kNoEventSlot) {
        ops.WaitSlot(stream, held_.last_copy_out);
      }
      const graph::DataType type =
          rank_.style.fp8_param_gather ? graph::DataType::kFloat8 : rank_.dtype;
      ops.Collective(stream, shard.axis, AllGatherOf(type, shard.elements));
      ops.Record(stream, shard.gathered);
    }
    return ops;
  }

  // The compute stream goes on with the unit's parameters.
  void Unshard(size_t unit) {
    if (held_.units[unit] == ParametersHeld::Of::kGathered) {
      return;
    }
    StartGather(unit);
    held_.units[unit] = ParametersHeld::Of::kGathered;
    EmitOnce(&units_[unit].unshard, [&] { return CopyOutOf(units_[unit]); });
    for (const ParameterShard& shard : units_[unit].shards) {
      held_.last_copy_out = shard.group_size > 1 ? shard.copied_out : held_.last_copy_out;
    }
  }

  [[nodiscard]] OpList CopyOutOf(const ShardedUnit& unit) const {
    OpList ops;
    for (const ParameterShard& shard : unit.shards) {
      if (shard.group_size == 1) {
        continue;
      }
      ops.WaitSlot(graph::kStageComputeStream, shard.gathered);
      BlockWriter copy(&Tables());
      copy.Pointwise("fsdp::split_with_sizes_copy", {Tensor(rank_.dtype, {shard.elements})});
      ops.Append(copy.Finish().program);
      ops.Record(graph::kStageComputeStream, shard.copied_out);
    }
    return ops;
  }

  void Reshard(const UnitCall& call, bool reshards) {
    ParametersHeld::Of& held = held_.units[IndexOf(call)];
    if (reshards && held == ParametersHeld::Of::kGathered) {
      held = ParametersHeld::Of::kShard;
    }
  }

  void Prefetch(const UnitCall& call) {
    for (int32_t ahead = 1; ahead <= rank_.style.prefetch; ++ahead) {
      if (call.unit >= static_cast<size_t>(ahead)) {
        StartGather(IndexOf(call) - static_cast<size_t>(ahead));
      }
    }
  }

  void Reduce(ShardedUnit* unit) {
    EmitOnce(&unit->reduce, [&] { return ReductionOf(*unit); });
  }

  // Gradients go into one buffer in the order of their shards, then to their owners; HSDP sums the
  // shards of all replicas.
  [[nodiscard]] OpList ReductionOf(const ShardedUnit& unit) const {
    OpList ops;
    for (const ParameterShard& shard : unit.shards) {
      BlockWriter copy(&Tables());
      copy.Pointwise("fsdp::chunk_cat", {Tensor(rank_.gradient, {shard.elements})});
      ops.Append(copy.Finish().program);
      uint16_t stream = graph::kStageComputeStream;
      if (shard.group_size > 1) {
        stream = graph::StageStream(shard.axis);
        ops.Wait(stream, ops.Record(graph::kStageComputeStream));
        ops.Collective(stream, shard.axis, ReduceScatterOf(rank_.gradient, shard.elements));
        ops.Record(stream, shard.reduced);
      }
      if (shard.replicas > 1) {
        const uint16_t replicate = graph::StageStream(GroupAxis::kReplicate);
        ops.Wait(replicate, ops.Record(stream));
        ops.Collective(replicate, GroupAxis::kReplicate,
                       AllReduceOf(rank_.gradient, shard.elements / shard.group_size));
        ops.Record(replicate, shard.reduced);
      }
    }
    return ops;
  }

  StageContext context_;
  const RankShape& rank_;
  std::vector<ShardedUnit> units_;  // of all chunks in turn
  std::vector<size_t> first_unit_;  // by chunk: of units_
};

}  // namespace

std::unique_ptr<DataParallel> MakeShardedDataParallel(const StageContext& context) {
  return std::make_unique<ShardedDataParallel>(context);
}

}  // namespace prism::slicer
