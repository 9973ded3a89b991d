// What a fused attention kernel multiplies, by the shapes of its op's inputs and its name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"
#include "replayer/cost/kernel_rules.h"

namespace prism::replayer {

struct AttentionShape {
  int64_t batch_heads = 0;  // sequences times heads
  int64_t queries = 0;      // of a sequence
  int64_t keys = 0;
  int64_t width = 0;        // of a head
  bool causal = true;       // half of the products
  bool names_mask = false;  // the kernel's name says whether it is; else that is assumed
  bool backward = false;
  graph::DataType type = graph::DataType::kUnknown;
};

// Of a kernel for which IsAttentionKernel holds. Inputs begin with q, k, v (the backward op puts
// the output's gradient first) of
// - [batch, heads, sequence, width], or with the two in the middle the other way round: the product
//   is the same, and the sequence is the longer one;
// - [tokens, heads, width], packed sequences, whose first tokens an int32 list tells: they count as
//   equally long, because the list's values are not known.
// Training attention is causal; flash kernels say in their name where they are not. Those of cuDNN
// and the memory-efficient ones do not say, and no input tells.
std::optional<AttentionShape> FindAttention(const KernelView& view);

// What is assumed of an iteration's attention kernels whose name says nothing of a mask, and which
// have no duration of their own: a line, or none where there are none.
std::vector<std::string> MaskAssumptions(const graph::Graph& graph);

}  // namespace prism::replayer
