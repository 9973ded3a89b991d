#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "slicer/synthesize/blocks/block_writer.h"
#include "slicer/synthesize/data_parallel.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;

class BucketedDataParallel : public DataParallel {
 public:
  explicit BucketedDataParallel(const StageContext& context)
      : context_(context),
        rank_(*context.rank),
        shards_(rank_.job.zero_stage >= 1),
        scatters_(rank_.built_in && rank_.job.zero_stage == 2),
        every_microbatch_(scatters_ ||
                          rank_.style.data_parallel == graph::DataParallelKind::kZero2) {
    for (const ModelChunk& chunk : *context.chunks) {
      chunks_.push_back(rank_.style.frozen_weights ? ChunkGradients{}
                                                   : LayOutGradients(rank_, chunk));
      TakeSlots(&chunks_.back());
    }
  }

  void BeginIteration() override {
    std::vector<int64_t> elements;
    for (const ChunkGradients& chunk : chunks_) {
      for (const GradBuffer& buffer : chunk.buffers) {
        elements.push_back(KeptGradients(buffer));
      }
    }
    context_.writer->Emit(BlockKind::kZeroGradients, elements,
                          [&] { return ZeroGradients(rank_, elements, &Tables()).program; });
    if (rank_.style.overlap_param_gather) {
      StartGathers(/*backwards=*/true);
    }
  }

  void CallUnit(const UnitCall& call) override {
    const UnitContent& content = *Unit(call).content;
    if (call.pass == StepKind::kForward) {
      if (WaitsForParameters(call.microbatch)) {
        WaitForParameters(call);
      }
    } else if (Reduces(call.microbatch)) {
      CallAndReduce(call);
      return;
    }
    context_.writer->Call(IndexOfCall(content, call.pass));
  }

  void EndBackward() override {
    OpList ops;
    FinishScatter(&ops);
    context_.writer->Emit(ops);
  }

  void FinishGradients() override {
    for (ChunkGradients& chunk : chunks_) {
      for (GradBuffer& buffer : chunk.buffers) {
        if (buffer.group_size > 1 && !Scatters(buffer)) {
          FinishReductions(&buffer);
        }
        ReduceCopies(buffer);
      }
    }
    if (!rank_.built_in && rank_.sequence_parallel) {
      ReduceSequenceParallel();
    }
  }

  [[nodiscard]] OptimizerPieces Pieces() const override {
    OptimizerPieces pieces;
    for (const ChunkGradients& chunk : chunks_) {
      for (const GradBuffer& buffer : chunk.buffers) {
        for (const GradBucket& bucket : buffer.buckets) {
          const int64_t elements = bucket.elements / (Shards(buffer) ? buffer.group_size : 1);
          (buffer.decay ? pieces.decay : pieces.no_decay).push_back(elements);
          pieces.weights += bucket.elements;
        }
      }
    }
    return pieces;
  }

  void FinishIteration() override {
    if (rank_.style.overlap_param_gather) {
      return;
    }
    StartGathers(/*backwards=*/false);
    for (const ChunkGradients& chunk : chunks_) {
      for (const GradBuffer& buffer : chunk.buffers) {
        for (const GradBucket& bucket : buffer.buckets) {
          if (Shards(buffer)) {
            context_.writer->Wait(bucket.gather);
          }
        }
      }
    }
  }

 private:
  [[nodiscard]] BlockTables& Tables() const { return context_.writer->assembly().tables(); }

  [[nodiscard]] const ChunkUnit& Unit(const UnitCall& call) const {
    return (*context_.chunks)[static_cast<size_t>(call.chunk)].units[call.unit];
  }

  // Of the latest chunk.
  void TakeSlots(ChunkGradients* gradients) {
    const auto chunk = static_cast<int64_t>(chunks_.size() - 1);
    EventSlots& slots = context_.writer->slots();
    size_t buckets = 0;
    for (const GradBuffer& buffer : gradients->buffers) {
      ready_.emplace_back(buffer.buckets.size());
      buckets += buffer.buckets.size();
    }
    uint32_t reduction = slots.Of(EventSlots::Use::kReduction, {chunk, 0}, buckets);
    uint32_t gather = slots.Of(EventSlots::Use::kGather, {chunk, 0}, buckets);
    for (GradBuffer& buffer : gradients->buffers) {
      for (GradBucket& bucket : buffer.buckets) {
        bucket.reduction = reduction++;
        bucket.gather = gather++;
      }
    }
  }

  [[nodiscard]] bool Shards(const GradBuffer& buffer) const {
    return shards_ && buffer.group_size > 1;
  }

  // ZeRO 2 of the built-in workload: only shards of these gradients are kept.
  [[nodiscard]] bool Scatters(const GradBuffer& buffer) const {
    return scatters_ && Shards(buffer);
  }

  // Elements that are kept from one pass to the next.
  [[nodiscard]] int64_t KeptGradients(const GradBuffer& buffer) const {
    return buffer.elements / (Scatters(buffer) ? buffer.group_size : 1);
  }

  // Whether gradients are scaled to the mean over all replicas of the job; those of the built-in
  // workload's experts are, even if no other rank holds these experts.
  [[nodiscard]] bool Averages(const GradBuffer& buffer) const {
    return buffer.group_size > 1 || (rank_.built_in && buffer.expert && rank_.job.parallel.dp > 1);
  }

  [[nodiscard]] bool Reduces(int64_t microbatch) const {
    return rank_.style.overlap_grad_reduce && !rank_.style.frozen_weights &&
           (every_microbatch_ || microbatch == rank_.job.microbatches() - 1);
  }

  // With overlapped gathers the first forward pass of a unit waits for its parameters.
  [[nodiscard]] bool WaitsForParameters(int64_t microbatch) const {
    return shards_ && rank_.style.overlap_param_gather && microbatch == 0 &&
           !rank_.style.frozen_weights;
  }

  // Whether, in addition to gradients that are scattered in every micro-batch, whole ones are
  // scaled in this one: those of experts that no other rank holds.
  [[nodiscard]] bool AveragesWhole(int32_t chunk, int64_t microbatch) const {
    const std::vector<GradBuffer>& buffers = chunks_[static_cast<size_t>(chunk)].buffers;
    return scatters_ && microbatch == rank_.job.microbatches() - 1 &&
           std::ranges::any_of(buffers, [this](const GradBuffer& buffer) {
             return Averages(buffer) && !Scatters(buffer);
           });
  }

  // A unit's block with its reductions, and the reduction that they leave in flight.
  struct SplicedUnit {
    std::vector<uint32_t> calls;
    const GradBuffer* pending_of = nullptr;
    const GradBucket* pending = nullptr;
  };

  // The block with a reduction wherever a bucket's last gradient is ready. The bucket starts over
  // after that, so every micro-batch that reduces does so at the same places.
  void CallAndReduce(const UnitCall& call) {
    const bool averages_whole = AveragesWhole(call.chunk, call.microbatch);
    const auto [found, inserted] = spliced_.try_emplace(
        std::make_tuple(call.pass, call.chunk, call.unit, averages_whole ? 1 : 0));
    SplicedUnit& unit = found->second;
    if (inserted) {
      unit.calls = Splice(call, DueReductions(call, averages_whole));
      unit.pending_of = pending_of_;
      unit.pending = pending_;
    }
    pending_of_ = unit.pending_of;
    pending_ = unit.pending;
    context_.writer->Call(unit.calls);
  }

  // A bucket whose gradients are complete before an op, or begin there.
  struct DueReduction {
    uint32_t op = 0;
    GradPlace place;
    bool opens = false;
  };

  std::vector<DueReduction> DueReductions(const UnitCall& call, bool averages_whole) {
    std::vector<DueReduction> due;
    ChunkGradients& gradients = chunks_[static_cast<size_t>(call.chunk)];
    const Block& block = BlockOfCall(*Unit(call).content, call.pass);
    uint32_t previous = 0;  // place of the previous contribution
    for (const GradientReady& ready : block.ready) {
      const GradPlace place = ready.parameter == kSharedEmbedding
                                  ? gradients.places.front().front()
                                  : gradients.places[call.unit][ready.parameter];
      const GradBuffer& buffer = gradients.buffers[place.buffer];
      int32_t& count = ready_[FirstBuffer(call.chunk) + place.buffer][place.bucket];
      if (count == 0 && Scatters(buffer)) {
        due.push_back({FirstOpOf(ready, previous, block.program), place, /*opens=*/true});
      }
      if (++count == buffer.buckets[place.bucket].expected) {
        count = 0;
        if (Averages(buffer) && (!scatters_ || Scatters(buffer) || averages_whole)) {
          due.push_back({ready.op, place});
        }
      }
      previous = ready.op;
    }
    return due;
  }

  // A contribution is one kernel, or several of the same if a tensor is too large for one.
  static uint32_t FirstOpOf(const GradientReady& ready,
                            uint32_t previous,
                            const graph::Program& block) {
    uint32_t op = ready.op - 1;
    while (op > previous && block.kind[op - 1] == graph::OpKind::kKernel &&
           block.signature[op - 1] == block.signature[op]) {
      --op;
    }
    return op;
  }

  // Calls that make up the unit's block with its reductions. It is cut wherever gradients are
  // ready, so that all stages and buckets share the pieces; if an event spans that place, the
  // reduction becomes part of the piece.
  std::vector<uint32_t> Splice(const UnitCall& call, const std::vector<DueReduction>& due) {
    const uint32_t whole = IndexOfCall(*Unit(call).content, call.pass);
    if (due.empty()) {
      return {whole};
    }
    const Block& block = BlockOfCall(*Unit(call).content, call.pass);
    const ChunkGradients& gradients = chunks_[static_cast<size_t>(call.chunk)];
    JobAssembly& assembly = context_.writer->assembly();
    std::vector<uint32_t> calls;
    uint32_t begin = 0;  // of the piece
    OpList piece;        // empty as long as it is one of the block's own
    auto own = assembly.PiecesOf(whole, block).begin();
    const auto end_piece = [&](uint32_t end) {
      if (!piece.empty()) {
        piece.Copy(block.program, begin, end);
        calls.push_back(assembly.BlockOf(piece));
        piece = OpList();
      } else if (end > begin) {
        calls.push_back(*own);
      }
      own += end > begin ? 1 : 0;
      begin = end;
    };
    auto next = due.begin();
    for (const GradientReady& ready : block.ready) {
      for (; next != due.end() && next->op < ready.op; ++next) {
        piece.Copy(block.program, begin, next->op);
        Open(gradients.buffers[next->place.buffer].buckets[next->place.bucket], &piece);
      }
      if (ready.may_cut) {
        end_piece(ready.op);
      }
      for (; next != due.end() && next->op == ready.op; ++next) {
        const GradBuffer& buffer = gradients.buffers[next->place.buffer];
        const GradBucket& bucket = buffer.buckets[next->place.bucket];
        if (next->opens) {
          piece.Copy(block.program, begin, ready.op);
          Open(bucket, &piece);
        } else if (begin == ready.op && piece.empty()) {
          calls.push_back(ReductionOf(buffer, bucket));
        } else {
          piece.Copy(block.program, begin, ready.op);
          Reduce(buffer, bucket, /*beside=*/true, &piece);
        }
      }
    }
    end_piece(block.program.size());
    return calls;
  }

  // The block that reduces a bucket concurrently with compute.
  [[nodiscard]] uint32_t ReductionOf(const GradBuffer& buffer, const GradBucket& bucket) {
    if (Scatters(buffer)) {
      OpList ops;
      Reduce(buffer, bucket, /*beside=*/true, &ops);
      return context_.writer->assembly().BlockOf(ops);
    }
    BlockKey key = {static_cast<int64_t>(buffer.axis), Shards(buffer) ? 1 : 0,
                    buffer.group_size > 1 ? 1 : 0, bucket.elements, bucket.reduction};
    return context_.writer->assembly().BlockFor(BlockKind::kReduction, std::move(key), [&] {
      OpList ops;
      Reduce(buffer, bucket, /*beside=*/true, &ops);
      return ops.Program();
    });
  }

  // Index into ready_ of the chunk's first buffer.
  [[nodiscard]] size_t FirstBuffer(int32_t chunk) const {
    size_t first = 0;
    for (int32_t c = 0; c < chunk; ++c) {
      first += chunks_[static_cast<size_t>(c)].buffers.size();
    }
    return first;
  }

  // Zeroes whole gradients of a bucket, for one micro-batch (launch/trainer/grad_buffer.h).
  void Open(const GradBucket& bucket, OpList* ops) const {
    BlockWriter zeros(&Tables());
    zeros.Pointwise("aten::fill_", {Tensor(rank_.gradient, {bucket.elements})});
    ops->Append(zeros.Finish().program);
  }

  // Adds the result for the bucket in flight to its shard (launch/trainer/grad_scatter.h).
  void FinishScatter(OpList* ops) {
    if (pending_ == nullptr) {
      return;
    }
    ops->WaitSlot(graph::kStageComputeStream, pending_->reduction);
    const graph::TensorShape shard =
        Tensor(rank_.gradient, {pending_->elements / pending_of_->group_size});
    BlockWriter add(&Tables());
    add.Pointwise("aten::add_", {shard, shard});
    ops->Append(add.Finish().program);
    pending_ = nullptr;
    pending_of_ = nullptr;
  }

  // Gradients are divided before the sum, as Megatron does to keep float32 sums in range.
  void Reduce(const GradBuffer& buffer, const GradBucket& bucket, bool beside, OpList* ops) {
    if (Scatters(buffer)) {
      FinishScatter(ops);
      pending_of_ = &buffer;
      pending_ = &bucket;
    }
    BlockWriter scale(&Tables());
    const graph::TensorShape gradients = Tensor(rank_.gradient, {bucket.elements});
    scale.Pointwise("aten::mul", {Tensor(DataType::kFloat64, {}), gradients, gradients});
    ops->Append(scale.Finish().program);
    if (buffer.group_size == 1) {
      return;
    }
    const bool apart = rank_.style.separate_fp32_gradients;
    const DataType type = apart ? rank_.dtype : rank_.gradient;
    const graph::CollectiveShape shape = Shards(buffer) && !apart
                                             ? ReduceScatterOf(type, bucket.elements)
                                             : AllReduceOf(type, bucket.elements);
    if (beside) {
      ops->Start(buffer.axis, shape, bucket.reduction);
    } else {
      ops->Blocking(buffer.axis, shape);
    }
  }

  void FinishReductions(GradBuffer* buffer) {
    for (GradBucket& bucket : buffer->buckets) {
      if (rank_.style.overlap_grad_reduce) {
        context_.writer->Wait(bucket.reduction);
      } else {
        OpList ops;
        Reduce(*buffer, bucket, /*beside=*/false, &ops);
        context_.writer->Emit(ops);
      }
    }
  }

  // Reduces gradients of which other groups hold a part: those of sequence-parallel parameters are
  // partial sums over tp, those of tied embeddings over the first and last stage.
  void ReduceCopies(const GradBuffer& buffer) {
    if (buffer.sequence_parallel) {
      for (const GradBucket& bucket : buffer.buckets) {
        const int64_t elements = bucket.elements / (Shards(buffer) ? buffer.group_size : 1);
        EmitBlocking(GroupAxis::kTensor, AllReduceOf(rank_.gradient, elements));
      }
    }
    if (buffer.tied && rank_.job.parallel.pp > 1) {
      EmitBlocking(GroupAxis::kEmbedding, AllReduceOf(rank_.gradient, KeptGradients(buffer)));
    }
  }

  // Megatron-LM flattens them into one reduction.
  void ReduceSequenceParallel() {
    int64_t elements = 0;
    for (const ModelChunk& chunk : *context_.chunks) {
      for (const ChunkUnit& unit : chunk.units) {
        for (const graph::UnitParameter& parameter : unit.content->blocks.parameters) {
          elements += parameter.sequence_parallel ? parameter.ElementCount() : 0;
        }
      }
    }
    if (elements > 0 && !rank_.style.frozen_weights) {
      EmitBlocking(GroupAxis::kTensor, AllReduceOf(rank_.gradient, elements));
    }
  }

  void EmitBlocking(GroupAxis axis, const graph::CollectiveShape& shape) {
    OpList ops;
    ops.Blocking(axis, shape);
    context_.writer->Emit(ops);
  }

  // Gathers all buckets; backwards is the order in which the forward pass needs them.
  void StartGathers(bool backwards) {
    OpList ops;
    const auto start = [&](const GradBuffer& buffer, const GradBucket& bucket) {
      const DataType type = rank_.style.fp8_param_gather ? DataType::kFloat8 : rank_.dtype;
      ops.Start(buffer.axis, AllGatherOf(type, bucket.elements), bucket.gather);
    };
    for (const ChunkGradients& chunk : chunks_) {
      for (const GradBuffer& buffer : chunk.buffers) {
        if (!Shards(buffer)) {
          continue;
        }
        for (size_t i = 0; i < buffer.buckets.size(); ++i) {
          start(buffer, buffer.buckets[backwards ? buffer.buckets.size() - 1 - i : i]);
        }
      }
    }
    context_.writer->Emit(ops);
  }

  void WaitForParameters(const UnitCall& call) {
    const ChunkGradients& gradients = chunks_[static_cast<size_t>(call.chunk)];
    std::vector<uint32_t> slots;
    for (const GradPlace& place : gradients.places[call.unit]) {
      const GradBuffer& buffer = gradients.buffers[place.buffer];
      const uint32_t slot = buffer.buckets[place.bucket].gather;
      if (Shards(buffer) && std::ranges::find(slots, slot) == slots.end()) {
        slots.push_back(slot);
      }
    }
    for (const uint32_t slot : slots) {
      context_.writer->Wait(slot);
    }
  }

  StageContext context_;
  const RankShape& rank_;
  bool shards_;
  bool scatters_;
  bool every_microbatch_;
  std::vector<ChunkGradients> chunks_;
  std::vector<std::vector<int32_t>> ready_;  // by buffer of all chunks, and bucket
  std::map<std::tuple<StepKind, int32_t, size_t, int>, SplicedUnit> spliced_;
  const GradBuffer* pending_of_ = nullptr;  // of the bucket being scattered to its shards
  const GradBucket* pending_ = nullptr;
};

}  // namespace

std::unique_ptr<DataParallel> MakeBucketedDataParallel(const StageContext& context) {
  return std::make_unique<BucketedDataParallel>(context);
}

}  // namespace prism::slicer
