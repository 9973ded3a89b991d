// Linear layers divided over the tensor-parallel group, and their communication (Shoeybi et al.
// 2019; with sequence parallelism Korthikanti et al. 2022).
//
// Column parallel: the output is divided; forward gathers the sequence, backward scatters the
// input's gradient. Row parallel: the input is divided; forward scatters the sum, backward gathers
// the output's gradient. Without sequence parallelism both directions all-reduce instead. The
// transfers of a column-parallel backward run concurrently with the products that do not need them,
// as in Megatron's LinearWithGradAccumulationAndAsyncCommunication.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/blocks/block_writer.h"

namespace prism::slicer {

// y = x · Wᵀ + b on one rank.
struct Linear {
  int64_t inputs = 0;
  int64_t outputs = 0;
  bool bias = false;
  bool bias_in_epilogue = true;  // else added by what follows the product
  uint32_t weight = 0;           // parameter of the block; its bias is the next one
  bool full_precision = false;   // in the type of activations even if others are 8 bit
};

void ColumnForward(const RankShape& rank, const Linear& linear, BlockWriter* writer);
void RowForward(const RankShape& rank, const Linear& linear, BlockWriter* writer);

// Which products of a backward pass are written: zero-bubble schedules issue those of the weights
// later.
enum class BackwardPart : uint8_t { kAll, kInput, kWeight };

void ColumnBackward(const RankShape& rank,
                    const Linear& linear,
                    BackwardPart part,
                    BlockWriter* writer);
void RowBackward(const RankShape& rank,
                 const Linear& linear,
                 BackwardPart part,
                 BlockWriter* writer);

// Every rank has the whole weight and applies it to its own tokens.
void ReplicatedForward(const RankShape& rank, const Linear& linear, BlockWriter* writer);
void ReplicatedBackward(const RankShape& rank,
                        const Linear& linear,
                        BackwardPart part,
                        BlockWriter* writer);

// Low-rank adapters of a frozen layer (Hu et al. 2021): two narrow products and a sum. Writes
// nothing if weights are trained.
void AdapterForward(const RankShape& rank, const Linear& linear, BlockWriter* writer);
void AdapterBackward(const RankShape& rank, const Linear& linear, BlockWriter* writer);

// Only the product over `tokens`, without communication.
void LocalForward(const RankShape& rank, const Linear& linear, int64_t tokens, BlockWriter* writer);

// Adds the gradient of a parameter that autograd has computed to the gradient buffer; writes
// nothing if weights are frozen.
void AccumulateGradient(const RankShape& rank,
                        const std::vector<int64_t>& shape,
                        uint32_t parameter,
                        BlockWriter* writer);

// Casts a factor of an 8-bit product from a wider type; written twice, once transposed, because
// these products need both factors with the summed dimension last.
void CastToFloat8(const graph::TensorShape& tensor, BlockWriter* writer);

// Forward: sum over the tensor-parallel group, scattered along the sequence under sequence
// parallelism. Backward: the reverse.
void ReduceForward(const RankShape& rank, int64_t width, BlockWriter* writer);
void GatherSequence(const RankShape& rank, int64_t width, BlockWriter* writer);

}  // namespace prism::slicer
