// Normalisation and the residual stream around it.
#pragma once

#include <cstdint>

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/blocks/block_writer.h"

namespace prism::slicer {

// LayerNorm or RMSNorm over the last dimension.
struct Norm {
  int64_t width = 0;
  uint32_t weight = 0;  // parameter of the block; the bias of a LayerNorm is the next one
};

// `after_add`: compiled code adds the residual in the same kernel.
void NormForward(const RankShape& rank, const Norm& norm, bool after_add, BlockWriter* writer);

// The gradients of input, weight and bias. What autograd accumulates into fp32 buffers comes after
// `residual` is added: the two branches of a residual connection are summed in between.
enum class ResidualSum : uint8_t {
  kNone,     // no second branch
  kInPlace,  // into a gradient that autograd owns
  kNew,      // the gradient came from outside: the sum is a new tensor
};

void NormBackward(const RankShape& rank, const Norm& norm, ResidualSum sum, BlockWriter* writer);

// residual + dropout(x + bias), the end of attention and feed-forward. `before_norm`: a norm
// follows, with which compiled code fuses it.
void ResidualForward(const RankShape& rank, bool bias, bool before_norm, BlockWriter* writer);

// The gradient of x and of the bias (parameter `bias_parameter`, if it has one).
void ResidualBackward(const RankShape& rank,
                      bool bias,
                      uint32_t bias_parameter,
                      BlockWriter* writer);

}  // namespace prism::slicer
