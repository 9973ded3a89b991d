#include "slicer/synthesize/blocks/parallel_layer.h"

#include "slicer/synthesize/blocks/attention.h"
#include "slicer/synthesize/blocks/linear.h"
#include "slicer/synthesize/blocks/mlp.h"
#include "slicer/synthesize/blocks/norm.h"
#include "slicer/synthesize/blocks/parameter_list.h"
#include "slicer/synthesize/blocks/unit_writer.h"

namespace prism::slicer {
namespace {

class ParallelLayerWriter {
 public:
  ParallelLayerWriter(const RankShape& rank, BlockTables* tables)
      : rank_(rank),
        writer_(tables),
        parameters_(graph::ParallelLayerParameters(rank.job)),
        norm_(parameters_.TakeNorm()),
        in_(parameters_.TakeLinear()),
        out_(parameters_.TakeLinear()),
        activation_({.rows = {rank.sequence, rank.batch}, .width = rank.ffn}) {}

  [[nodiscard]] const graph::UnitParameters& parameters() const { return parameters_.all(); }

  Block Forward() {
    WriteForward();
    return writer_.Finish();
  }

  Block Backward(BackwardPart part) {
    if (part == BackwardPart::kWeight) {
      RowBackward(rank_, out_, part, &writer_);
      ColumnBackward(rank_, in_, part, &writer_);
      return writer_.Finish();
    }
    if (rank_.job.recompute == graph::Recompute::kFull) {
      WriteForward();
    }
    ResidualBackward(rank_, out_.bias, out_.weight + 1, &writer_);
    RowBackward(rank_, out_, part, &writer_);
    ActivationBackward(rank_, activation_, &writer_);
    CoreBackward(rank_, &writer_);
    SplitBackward(rank_, &writer_);
    ColumnBackward(rank_, in_, part, &writer_);
    NormBackward(rank_, norm_, ResidualSum::kInPlace, &writer_);
    return writer_.Finish();
  }

 private:
  void WriteForward() {
    NormForward(rank_, norm_, /*after_add=*/false, &writer_);
    ColumnForward(rank_, in_, &writer_);
    SplitForward(rank_, &writer_);
    CoreForward(rank_, &writer_);
    ActivationForward(rank_, activation_, &writer_);
    RowForward(rank_, out_, &writer_);
    ResidualForward(rank_, out_.bias, /*before_norm=*/false, &writer_);
  }

  const RankShape& rank_;
  BlockWriter writer_;
  ParameterList parameters_;
  Norm norm_;
  Linear in_;
  Linear out_;
  Activation activation_;
};

}  // namespace

UnitBlocks ParallelLayerUnit(const RankShape& rank, BlockTables* tables) {
  ParallelLayerWriter writer(rank, tables);
  return WriteUnit(rank, &writer);
}

}  // namespace prism::slicer
