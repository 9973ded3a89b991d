// A layer whose attention and feed-forward work in parallel on one norm of the residual stream
// (parallel transformer block: Wang and Komatsuzaki 2021; MegaScale, arXiv 2402.15627, section
// 3.1): one input projection, one output projection, half the tensor-parallel transfers.
#pragma once

#include "slicer/synthesize/blocks/blocks.h"

namespace prism::slicer {

UnitBlocks ParallelLayerUnit(const RankShape& rank, BlockTables* tables);

}  // namespace prism::slicer
