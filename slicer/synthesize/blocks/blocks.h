// The kernel content of a transformer on one rank: what synthesize/ builds stages from.
//
// A JobSpec and a TrainingStyle decide which kernels; TrainingStyle{} gives those of the built-in
// workload (launch/trainer/), op by op: order, streams, events, framework ops, shapes of tensors
// and matrix products, cuBLAS calls. Kernel names are without template arguments, and grids are
// given only if a cost depends on them. Other styles give the kernels that Megatron-LM, Transformer
// Engine, DeepSpeed, FSDP and torchtitan launch for that choice.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/block.h"

namespace prism::slicer {

// The position of a unit in its model.
struct UnitPlace {
  int64_t layer = 0;  // of the whole model; layers of a mixture of experts may differ
  // The gradient of the unit's output comes from another stage, not from the next unit.
  bool gradient_received = false;
  // The first and the last chunk of the model are the same and embeddings are tied. The head's
  // contribution to the shared embedding is then `ready` for parameter kSharedEmbedding.
  bool shares_embedding = false;
};

inline constexpr uint32_t kSharedEmbedding = 0xFFFFFFFFU;

// The parts of a model chunk. Zero-bubble halves are filled if the style's schedule has them.
UnitBlocks EmbeddingUnit(const RankShape& rank, const UnitPlace& place, BlockTables* tables);
UnitBlocks LayerUnit(const RankShape& rank, const UnitPlace& place, BlockTables* tables);
UnitBlocks HeadUnit(const RankShape& rank, const UnitPlace& place, BlockTables* tables);

// What surrounds the units in an iteration.

// Tokens of a micro-batch from the host: inputs for the first stage, targets for the last.
Block BatchLoad(const RankShape& rank, bool inputs, bool targets, BlockTables* tables);

// After the head's forward: the loss is scaled and summed over micro-batches.
Block LossScale(bool first_microbatch, BlockTables* tables);

// The mean loss of the iteration, to the host (last stage).
Block LossReport(const RankShape& rank, BlockTables* tables);

// One kernel per buffer of `elements` gradients.
Block ZeroGradients(const RankShape& rank,
                    const std::vector<int64_t>& elements,
                    BlockTables* tables);

// Elements of the flat pieces of parameters that this rank updates, in the order of its buffers.
struct OptimizerPieces {
  std::vector<int64_t> decay;     // with weight decay
  std::vector<int64_t> no_decay;  // without
  int64_t weights = 0;            // elements of all parameters that the rank holds, for 8-bit casts
};

// Gradient norm and clipping, the step itself, values back to the type of the parameters.
Block OptimizerStep(const RankShape& rank, const OptimizerPieces& pieces, BlockTables* tables);

}  // namespace prism::slicer
