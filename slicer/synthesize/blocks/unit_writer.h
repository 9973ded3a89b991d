// Makes a unit of a model chunk from the writer of its passes.
#pragma once

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/block.h"
#include "slicer/synthesize/blocks/linear.h"

namespace prism::slicer {

// `Writer` has parameters(), Forward() and Backward(BackwardPart). Backward in two halves only if
// the schedule distinguishes them.
template <typename Writer>
UnitBlocks WriteUnit(const RankShape& rank, Writer* writer) {
  UnitBlocks unit;
  unit.parameters = writer->parameters();
  unit.forward = writer->Forward();
  unit.backward = writer->Backward(BackwardPart::kAll);
  if (rank.style.schedule == graph::Schedule::kZeroBubble) {
    unit.backward_input = writer->Backward(BackwardPart::kInput);
    unit.backward_weight = writer->Backward(BackwardPart::kWeight);
  }
  return unit;
}

}  // namespace prism::slicer
