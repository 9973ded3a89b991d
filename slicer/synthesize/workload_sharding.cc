// ZeRO 3 of the built-in workload: launch/trainer/sharded_parameters.h, op by op.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "graph/job/flat_buckets.h"
#include "graph/program/job_groups.h"
#include "slicer/synthesize/blocks/block_writer.h"
#include "slicer/synthesize/data_parallel.h"

namespace prism::slicer {
namespace {

using graph::GroupAxis;

// Kinds of parameter that share a piece of a shard, in the order of the pieces
// (launch/trainer/parameter_kind.h). There are no experts.
struct Kind {
  bool tied = false;
  bool split = false;
  bool sequence_parallel = false;
  bool decay = true;

  auto operator<=>(const Kind&) const = default;
};

// Elements of a rank's shard of a unit, by kind.
using Shard = std::map<Kind, int64_t>;

class WorkloadSharding : public DataParallel {
 public:
  explicit WorkloadSharding(const StageContext& context)
      : context_(context),
        rank_(*context.rank),
        axis_(rank_.job.parallel.cp > 1 ? GroupAxis::kDataContext : GroupAxis::kData),
        ranks_(graph::JobGroups(rank_.job.parallel, rank_.style.shard_size).Size(axis_)),
        gathered_(context.writer->slots().Of(EventSlots::Use::kGather, {}, 1)),
        reduced_(context.writer->slots().Of(EventSlots::Use::kReduction, {}, 1)) {
    for (const ModelChunk& chunk : *context.chunks) {
      chunks_.push_back(ShardsOf(chunk));
    }
  }

  void BeginIteration() override {
    std::vector<int64_t> elements;
    for (const ChunkShards& chunk : chunks_) {
      for (const auto& [kind, count] : KindsOf(chunk)) {
        elements.push_back(count);
      }
    }
    context_.writer->Emit(BlockKind::kZeroGradients, elements,
                          [&] { return ZeroGradients(rank_, elements, &Tables()).program; });
  }

  void CallUnit(const UnitCall& call) override {
    const UnitContent& content =
        *(*context_.chunks)[static_cast<size_t>(call.chunk)].units[call.unit].content;
    const ChunkShards& chunk = chunks_[static_cast<size_t>(call.chunk)];
    if (call.pass == StepKind::kForward) {
      BeginForward(chunk, call.unit);
      context_.writer->Call(IndexOfCall(content, call.pass));
      return;
    }
    BeginBackward(chunk, call.unit);
    context_.writer->Call(IndexOfCall(content, call.pass));
    if (!(chunk.shares_first && call.unit + 1 == chunk.places.size())) {
      Reduce(chunk.units[chunk.places[call.unit]]);
    }
  }

  void EndBackward() override {
    OpList ops;
    FinishReduction(&ops);
    context_.writer->Emit(ops);
  }

  void FinishGradients() override {
    for (const ChunkShards& chunk : chunks_) {
      for (const auto& [kind, elements] : KindsOf(chunk)) {
        if (kind.sequence_parallel) {
          EmitBlocking(GroupAxis::kTensor, AllReduceOf(rank_.gradient, elements));
        }
        if (kind.tied && rank_.job.parallel.pp > 1) {
          EmitBlocking(GroupAxis::kEmbedding, AllReduceOf(rank_.gradient, elements));
        }
      }
    }
  }

  [[nodiscard]] OptimizerPieces Pieces() const override {
    OptimizerPieces pieces;
    for (const ChunkShards& chunk : chunks_) {
      for (const Shard& unit : chunk.units) {
        for (const auto& [kind, elements] : unit) {
          (kind.decay ? pieces.decay : pieces.no_decay).push_back(elements);
          pieces.weights += elements;
        }
      }
    }
    return pieces;
  }

  void FinishIteration() override {}

 private:
  struct ChunkShards {
    std::vector<Shard> units;
    std::vector<size_t> places;  // the unit of every place, in forward order
    bool shares_first = false;   // the last place has the unit of the first
    bool keeps_last = false;     // from its forward to its backward pass

    // Whether what a place needs stays gathered from its forward to its backward pass.
    [[nodiscard]] bool Stays(size_t place) const {
      return place + 1 == places.size() ? keeps_last : shares_first && place == 0;
    }
  };

  [[nodiscard]] BlockTables& Tables() const { return context_.writer->assembly().tables(); }

  [[nodiscard]] ChunkShards ShardsOf(const ModelChunk& chunk) const {
    ChunkShards result;
    std::vector<std::map<Kind, std::vector<int64_t>>> sizes;
    const bool is_whole_model = chunk.first && chunk.last;
    result.shares_first = is_whole_model && rank_.job.model.tied_embeddings;
    result.keeps_last = chunk.last && rank_.job.parallel.pp == 1;
    for (size_t place = 0; place < chunk.units.size(); ++place) {
      const bool shares = result.shares_first && place + 1 == chunk.units.size();
      if (!shares) {
        sizes.emplace_back();
      }
      result.places.push_back(shares ? 0 : sizes.size() - 1);
      for (const graph::UnitParameter& parameter : chunk.units[place].content->blocks.parameters) {
        const Kind kind = {parameter.tied, parameter.split, parameter.sequence_parallel,
                           parameter.decay};
        sizes[result.places.back()][kind].push_back(parameter.ElementCount());
      }
    }
    for (const auto& unit : sizes) {
      Shard& shard = result.units.emplace_back();
      for (const auto& [kind, elements] : unit) {
        shard[kind] = graph::PaddedShard(elements, ranks_);
      }
    }
    return result;
  }

  // Gradient shards of a kind are one tensor.
  static std::map<Kind, int64_t> KindsOf(const ChunkShards& chunk) {
    std::map<Kind, int64_t> kinds;
    for (const Shard& unit : chunk.units) {
      for (const auto& [kind, elements] : unit) {
        kinds[kind] += elements;
      }
    }
    return kinds;
  }

  static int64_t SizeOf(const Shard& shard) {
    int64_t size = 0;
    for (const auto& [kind, elements] : shard) {
      size += elements;
    }
    return size;
  }

  void BeginForward(const ChunkShards& chunk, size_t place) {
    OpList ops;
    const auto shared = [&chunk](size_t at) {
      return chunk.shares_first && at > 0 && at + 1 == chunk.places.size();
    };
    if (place == 0) {
      StartGather(chunk.units[chunk.places[place]], &ops);
    }
    if (!shared(place)) {
      Unshard(chunk.units[chunk.places[place]], &ops);
    }
    if (place + 1 < chunk.places.size() && !shared(place + 1)) {
      StartGather(chunk.units[chunk.places[place + 1]], &ops);
    }
    context_.writer->Emit(ops);
  }

  void BeginBackward(const ChunkShards& chunk, size_t place) {
    OpList ops;
    const Shard& unit = chunk.units[chunk.places[place]];
    if (!chunk.Stays(place)) {
      if (place + 1 == chunk.places.size()) {
        StartGather(unit, &ops);
      }
      Unshard(unit, &ops);
    }
    if (place > 0 && !chunk.Stays(place - 1)) {
      StartGather(chunk.units[chunk.places[place - 1]], &ops);
    }
    if (!(chunk.shares_first && place == 0)) {
      BlockWriter zeros(&Tables());
      zeros.Pointwise("aten::fill_", {Tensor(rank_.gradient, {ranks_ * SizeOf(unit)})});
      ops.Append(zeros.Finish().program);
    }
    context_.writer->Emit(ops);
  }

  void StartGather(const Shard& unit, OpList* ops) const {
    ops->Start(axis_, AllGatherOf(rank_.dtype, ranks_ * SizeOf(unit)), gathered_);
  }

  // A unit of one kind arrives in its final layout: the copy engine copies it.
  void Unshard(const Shard& unit, OpList* ops) const {
    ops->WaitSlot(graph::kStageComputeStream, gathered_);
    BlockWriter copies(&Tables());
    for (const auto& [kind, elements] : unit) {
      if (unit.size() == 1) {
        copies.Copy(ranks_ * elements * DataTypeBytes(rank_.dtype), 0);
        continue;
      }
      const graph::TensorShape piece = Tensor(rank_.dtype, {ranks_, elements});
      Strided("aten::copy_", {piece, piece}, {elements, SizeOf(unit), rank_.dtype}, &copies);
    }
    ops->Append(copies.Finish().program);
  }

  void Reduce(const Shard& unit) {
    OpList ops;
    FinishReduction(&ops);
    BlockWriter scale(&Tables());
    for (const auto& [kind, elements] : unit) {
      const graph::TensorShape piece = Tensor(rank_.gradient, {ranks_, elements});
      Strided("aten::mul", {Tensor(DataType::kFloat64, {}), piece, piece},
              {elements, SizeOf(unit), rank_.gradient}, &scale);
    }
    ops.Append(scale.Finish().program);
    ops.Start(axis_, ReduceScatterOf(rank_.gradient, ranks_ * SizeOf(unit)), reduced_);
    pending_ = &unit;
    context_.writer->Emit(ops);
  }

  // Adds the result of the reduction to the shards.
  void FinishReduction(OpList* ops) {
    if (pending_ == nullptr) {
      return;
    }
    ops->WaitSlot(graph::kStageComputeStream, reduced_);
    BlockWriter add(&Tables());
    for (const auto& [kind, elements] : *pending_) {
      const graph::TensorShape piece = Tensor(rank_.gradient, {elements});
      add.Pointwise("aten::add_", {piece, piece});
    }
    ops->Append(add.Finish().program);
    pending_ = nullptr;
  }

  // Columns of a matrix with one row per rank.
  struct Columns {
    int64_t count = 0;
    int64_t row = 0;  // elements
    DataType dtype = DataType::kFloat32;
  };

  // An elementwise kernel over some of the columns. If it cannot be indexed with 32 bits it is
  // halved (TensorIterator::with_32bit_indexing).
  void Strided(const char* op, Tensors inputs, const Columns& columns, BlockWriter* writer) const {
    const uint32_t first = writer->size();
    writer->Kernel(op, "elementwise_kernel", std::move(inputs));
    for (int64_t part = 1; part < Parts(ranks_, columns); ++part) {
      writer->KernelAgain(first);
    }
  }

  static int64_t Parts(int64_t rows, const Columns& columns) {
    const int64_t elements = (rows - 1) * columns.row + columns.count;
    if (elements * DataTypeBytes(columns.dtype) <= std::numeric_limits<int32_t>::max()) {
      return 1;
    }
    if ((rows - 1) * columns.row >= columns.count - 1) {
      return Parts(rows / 2, columns) + Parts(rows - rows / 2, columns);
    }
    const int64_t half = columns.count / 2;
    return Parts(rows, {half, columns.row, columns.dtype}) +
           Parts(rows, {columns.count - half, columns.row, columns.dtype});
  }

  void EmitBlocking(GroupAxis axis, const graph::CollectiveShape& shape) {
    OpList ops;
    ops.Blocking(axis, shape);
    context_.writer->Emit(ops);
  }

  StageContext context_;
  const RankShape& rank_;
  GroupAxis axis_;
  int64_t ranks_;
  uint32_t gathered_;  // event slots: of the gather
  uint32_t reduced_;   // and of the reduction in flight
  std::vector<ChunkShards> chunks_;
  const Shard* pending_ = nullptr;  // of the reduction in flight
};

}  // namespace

std::unique_ptr<DataParallel> MakeWorkloadSharding(const StageContext& context) {
  return std::make_unique<WorkloadSharding>(context);
}

}  // namespace prism::slicer
