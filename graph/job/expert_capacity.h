// How many tokens of a rank's micro-batch an expert takes when every expert has a fixed number of
// rows: Megatron-Core's --moe-pad-expert-input-to-capacity with a capacity factor of 1
// (core/transformer/moe/moe_utils.py: get_capacity).
#pragma once

#include <cstdint>

#include "graph/base/divide.h"
#include "graph/job/job.h"

namespace prism::graph {

// `tokens`: how many the rank routes. Above it an expert's least probable tokens are dropped; below
// it its rows are padded.
inline int64_t ExpertCapacity(const MoeShape& moe, int64_t tokens) {
  return DivideUp(tokens * moe.topk, moe.experts);
}

}  // namespace prism::graph
