// Attention as batched matrix products with a softmax in between.
#pragma once

#include "slicer/synthesize/blocks/block_writer.h"
#include "slicer/synthesize/blocks/rank_shape.h"

namespace prism::slicer {

void UnfusedForward(const RankShape& rank, BlockWriter* writer);
void UnfusedBackward(const RankShape& rank, BlockWriter* writer);

}  // namespace prism::slicer
