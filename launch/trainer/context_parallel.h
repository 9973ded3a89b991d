// Context parallelism by exchange (DeepSpeed-Ulysses, arXiv 2309.14509; Megatron's --cp-comm-type
// a2a): every rank has a part of the sequence and, in attention, the whole sequence for a part of
// the heads. All ranks do the same, unlike in a ring, where causal attention has different shapes
// on every rank.
#pragma once

#include <ATen/ATen.h>

#include "launch/trainer/parallel_groups.h"

namespace prism::launch {

// [sequence / cp, batch, heads' width] -> [sequence, batch, width / cp] of this rank's heads, one
// all-to-all; autograd does the reverse. Does nothing if the rank is alone in the group.
at::Tensor SequenceForHeads(const at::Tensor& input, const Group& cp);

// The reverse, with all heads' width in their order.
at::Tensor HeadsForSequence(const at::Tensor& input, const Group& cp);

}  // namespace prism::launch
