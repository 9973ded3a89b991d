// The attention core, between the projections of queries, keys and values and the output
// projection.
#pragma once

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/blocks/block_writer.h"

namespace prism::slicer {

// Splits the fused projection into queries, keys and values and applies rotary positions.
void SplitForward(const RankShape& rank, BlockWriter* writer);
void SplitBackward(const RankShape& rank, BlockWriter* writer);

// Scores, softmax and the weighted sum of values, with what context parallelism adds: a ring of
// exchanges of keys and values concurrent with the parts of the product, or all-to-alls from
// sequence to heads (Ulysses). Backward begins with what selective recomputation repeats.
void CoreForward(const RankShape& rank, BlockWriter* writer);
void CoreBackward(const RankShape& rank, BlockWriter* writer);

}  // namespace prism::slicer
