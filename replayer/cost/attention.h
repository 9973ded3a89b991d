// The products of a fused attention kernel, derived from the shapes of its op's inputs and its
// name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/program/op.h"
#include "replayer/cost/kernel_rules.h"

namespace prism::replayer {

// Whether the kernel is the one in a fused attention op that computes the matrix products (an op
// also launches smaller ones: preparation, conversion).
bool IsAttentionKernel(const KernelView& view);
bool IsAttentionBackward(const KernelView& view);

// The generation of fused attention: they differ in how well they keep the matrix units busy.
enum class AttentionGeneration : uint8_t { kFlash1, kFlash2, kHopper };
AttentionGeneration AttentionGenerationOf(const KernelView& view);

struct AttentionShape {
  int64_t batch_heads = 0;  // sequences times heads
  int64_t queries = 0;      // of a sequence
  int64_t keys = 0;
  int64_t width = 0;        // of a head
  int64_t kv_bytes = 0;     // of keys and values
  bool causal = true;       // half of the products
  bool names_mask = false;  // the name says whether it is causal; else assumed
  bool backward = false;
  double products = 1;       // times those of the forward pass
  bool splits_keys = false;  // among blocks, so that few queries keep all SMs busy
  DataType type = DataType::kUnknown;
};

// For a kernel for which IsAttentionKernel holds. Inputs begin with q, k, v (the backward op puts
// the output's gradient first, beside which a torch.autograd.Function has none: as many keys as
// queries then) of
// - [batch, heads, sequence, width], or with the two middle dimensions swapped: the sequence is the
//   one in which there are more keys than queries, or the longer of the two;
// - [tokens, heads, width], packed sequences, whose first tokens are given by an int32 list: they
//   are assumed to be equally long, because the list's values are not known.
// Training attention is causal; the names of flash kernels say if they are not, and of libtorch's
// ops that are called without a mask (".full" behind the op's name, shim/observer/observer.cc).
// With a mask among the inputs, nothing is left out.
std::optional<AttentionShape> FindAttention(const KernelView& view);

// The assumption made for an iteration's attention kernels whose name does not mention a mask and
// which have no recorded duration: one line, or none if there are no such kernels.
std::vector<std::string> MaskAssumptions(const graph::Graph& graph);

}  // namespace prism::replayer
