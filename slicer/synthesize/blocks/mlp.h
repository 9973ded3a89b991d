// The dense feed-forward between its two linear layers.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/program/rank_shape.h"
#include "slicer/synthesize/blocks/block_writer.h"

namespace prism::slicer {

// GeLU, squared ReLU or SwiGLU over `rows` (leading dimensions of the tensors) of `width` (of one
// branch). `bias`: one that the previous product has left to this kernel.
struct Activation {
  std::vector<int64_t> rows;
  int64_t width = 0;
  bool bias = false;
};

void ActivationForward(const RankShape& rank, const Activation& activation, BlockWriter* writer);
void ActivationBackward(const RankShape& rank, const Activation& activation, BlockWriter* writer);

}  // namespace prism::slicer
