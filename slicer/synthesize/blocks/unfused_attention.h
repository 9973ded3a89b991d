// Attention as batched matrix products with a softmax in between.
#pragma once

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/blocks/block_writer.h"

namespace prism::slicer {

void UnfusedForward(const RankShape& rank, BlockWriter* writer);
void UnfusedBackward(const RankShape& rank, BlockWriter* writer);

}  // namespace prism::slicer
