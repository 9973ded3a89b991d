// Word and position embeddings, divided over the vocabulary as Megatron does.
#include "slicer/synthesize/blocks/blocks.h"
#include "slicer/synthesize/blocks/launch_rules.h"
#include "slicer/synthesize/blocks/linear.h"

namespace prism::slicer {
namespace {

// Rows of a table by index, copied into a new tensor.
void Lookup(const RankShape& rank, int64_t rows, int64_t indices, BlockWriter* writer) {
  writer->Kernel(
      "aten::gather", "vectorized_gather_kernel",
      {Tensor(rank.dtype, {rows, rank.hidden}), Tensor(DataType::kInt64, {indices, rank.hidden}),
       Tensor(rank.dtype, {indices, rank.hidden})});
}

class EmbeddingWriter {
 public:
  EmbeddingWriter(const RankShape& rank, BlockTables* tables) : rank_(rank), writer_(tables) {}

  Block Forward() {
    Words();
    if (Positions()) {
      AllReduce();
      Lookup(rank_, rank_.job.seq_len, rank_.sequence, &writer_);
      writer_.Pointwise("aten::add",
                        {BatchFirst(), Tensor(rank_.dtype, {1, rank_.sequence, rank_.hidden})});
      ToSequenceFirst();
      if (rank_.sequence_parallel) {
        writer_.Copy(rank_.Outside(rank_.hidden).Bytes(), 0);
      }
    } else {
      ToSequenceFirst();
      ReduceForward(rank_, rank_.hidden, &writer_);
    }
    if (rank_.style.dropout) {
      writer_.Kernel("aten::native_dropout", "fused_dropout_kernel_vec",
                     {rank_.Outside(rank_.hidden)});
    }
    return writer_.Finish();
  }

  Block Backward() {
    if (rank_.style.frozen_weights) {
      return writer_.Finish();
    }
    if (rank_.style.dropout) {
      writer_.Pointwise("aten::native_dropout_backward", {rank_.Outside(rank_.hidden)});
    }
    GatherSequence(rank_, rank_.hidden, &writer_);
    if (Positions()) {
      if (rank_.batch > 1) {
        ColumnSum(BatchFirst(), rank_.sequence * rank_.hidden, &writer_);
      }
      TableGradient(rank_.job.seq_len, 1, 1);
    }
    if (rank_.batch > 1) {
      writer_.Pointwise("aten::copy_", {BatchFirst(), BatchFirst()});
    } else if (rank_.tensor_parallel) {
      writer_.Copy(BatchFirst().Bytes(), 0);
    }
    if (rank_.tensor_parallel) {
      writer_.Pointwise("aten::masked_fill_", {BatchFirst(), Mask()});
    }
    TableGradient(rank_.vocab, rank_.batch, 0);
    return writer_.Finish();
  }

 private:
  [[nodiscard]] bool Positions() const { return rank_.job.model.block == graph::BlockKind::kGpt; }

  [[nodiscard]] graph::TensorShape Ids(DataType type) const {
    return Tensor(type, {rank_.batch, rank_.sequence});
  }

  [[nodiscard]] graph::TensorShape Mask() const {
    return Tensor(DataType::kBool, {rank_.batch, rank_.sequence, 1});
  }

  [[nodiscard]] graph::TensorShape BatchFirst() const {
    return Tensor(rank_.dtype, {rank_.batch, rank_.sequence, rank_.hidden});
  }

  [[nodiscard]] graph::TensorShape SequenceFirst() const { return rank_.Inside(rank_.hidden); }

  // Ids of another rank's rows read row 0, and the result is set to zero.
  void Words() {
    const graph::TensorShape ids = Ids(DataType::kInt64);
    const graph::TensorShape flags = Ids(DataType::kBool);
    if (rank_.tensor_parallel) {
      writer_.Pointwise("aten::lt", {ids});
      writer_.Pointwise("aten::ge", {ids});
      writer_.Pointwise("aten::logical_or", {flags, flags, flags});
      writer_.Pointwise("aten::sub", {ids, Tensor(DataType::kInt64, {})});
      writer_.Pointwise("aten::masked_fill_", {ids, flags});
    }
    Lookup(rank_, rank_.vocab, rank_.tokens(), &writer_);
    if (rank_.tensor_parallel) {
      writer_.Copy(BatchFirst().Bytes(), 0);  // masked_fill begins with a clone
      writer_.Pointwise("aten::masked_fill_", {BatchFirst(), Mask()});
    }
  }

  // Transposes tokens; with a batch of one sequence both orders are the same.
  void ToSequenceFirst() {
    if (rank_.batch > 1) {
      writer_.Pointwise("aten::copy_", {SequenceFirst(), SequenceFirst()});
    }
  }

  void AllReduce() {
    if (rank_.tensor_parallel) {
      writer_.Collective(graph::GroupAxis::kTensor,
                         AllReduceOf(rank_.dtype, rank_.tokens() * rank_.hidden));
    }
  }

  // A dense gradient of the table: zeros, plus the rows that were read.
  void TableGradient(int64_t rows, int64_t batch, uint32_t parameter) {
    const std::vector<int64_t> shape = {rows, rank_.hidden};
    EmbeddingGradient(Tensor(rank_.dtype, shape),
                      Tensor(rank_.dtype, {batch, rank_.sequence, rank_.hidden}), &writer_);
    AccumulateGradient(rank_, shape, parameter, &writer_);
  }

  const RankShape& rank_;
  BlockWriter writer_;
};

}  // namespace

UnitBlocks EmbeddingUnit(const RankShape& rank, const UnitPlace& place, BlockTables* tables) {
  EmbeddingWriter writer(rank, tables);
  UnitBlocks unit;
  unit.parameters = graph::EmbeddingParameters(rank.job, place.shares_embedding);
  unit.forward = writer.Forward();
  unit.backward = writer.Backward();
  unit.backward_input = unit.backward;  // nothing to put off
  return unit;
}

Block BatchLoad(const RankShape& rank, bool inputs, bool targets, BlockTables* tables) {
  BlockWriter writer(tables);
  const int64_t bytes = rank.tokens() * DataTypeBytes(DataType::kInt64);
  if (inputs) {
    writer.Copy(bytes, graph::kHostToDevice);
  }
  if (targets) {
    writer.Copy(bytes, graph::kHostToDevice);
  }
  return writer.Finish();
}

}  // namespace prism::slicer
