// The attention core, between the projections of queries, keys and values and of its output.
#pragma once

#include "slicer/synthesize/blocks/block_writer.h"
#include "slicer/synthesize/blocks/rank_shape.h"

namespace prism::slicer {

// The mixed projection is divided into queries, keys and values; rotary positions are applied.
void SplitForward(const RankShape& rank, BlockWriter* writer);
void SplitBackward(const RankShape& rank, BlockWriter* writer);

// Scores, softmax and the weighted sum of values, with what context parallelism adds: a ring of
// exchanges of keys and values beside the parts of the product, or all-to-alls from sequence to
// heads (Ulysses). Backward begins with what selective recomputation repeats.
void CoreForward(const RankShape& rank, BlockWriter* writer);
void CoreBackward(const RankShape& rank, BlockWriter* writer);

}  // namespace prism::slicer
