// How many bytes a memory-bound kernel moves, by the framework op it belongs to and the shapes of
// that op's inputs.
//
// How to name a kernel that no recording has seen (synthesised blocks), so that its bytes are
// right:
// - A plain op keeps its framework name (aten::native_layer_norm, aten::_softmax, aten::mm with
//   `matmul` filled in, aten::_flash_attention_forward with q, k, v first), inputs as torch passes
//   them.
// - A fused kernel is "fused::NAME" (fused::bias_dropout_add, fused::swiglu_backward,
//   fused::rope, fused::adam). Its `inputs` are every tensor that it reads or writes, once for each
//   access: bytes are their plain sum. A tensor updated in place stands there twice.
// - A fused matrix product or attention fills `matmul`, or is named like the attention op, whatever
//   it fuses beside: its FLOPs bind.
// - Attention is flash v2 unless kernel or op name says "cudnn", "fused_attn" (Transformer Engine),
//   "flash_v3" or "hopper" (all: kHopper), or "flash_v1".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/signature.h"

namespace prism::replayer {

// What the rules look at: names resolved, shapes by reference.
struct KernelView {
  std::string_view kernel;        // demangled name
  std::string_view framework_op;  // e.g. aten::add_
  const graph::KernelSignature& signature;
};

// Whether the kernel is the one of a fused attention op that does the matrix products (an op
// launches smaller ones beside it: preparation, conversion).
bool IsAttentionKernel(const KernelView& view);
bool IsAttentionBackward(const KernelView& view);

// "aten::add_" -> "add", "aten::sum.dim_IntList" -> "sum".
std::string_view BareOpName(std::string_view op);

// Which generation of fused attention runs: they differ in how well they keep the matrix units
// busy.
enum class AttentionGeneration : uint8_t { kFlash1, kFlash2, kHopper };
AttentionGeneration AttentionGenerationOf(const KernelView& view);

// A kernel over lists of tensors (foreach, fused optimizers): bytes by its grid, because one op
// launches many of them. Nothing for other kernels.
std::optional<double> TensorListBytes(const KernelView& view);

// Bytes by the rule of the framework op; nothing where no rule knows the op.
std::optional<double> FrameworkOpBytes(const KernelView& view);

// The default: every input read once, the largest written once; by the grid where no shapes are
// known, or only those of a region that torch.compile has made many kernels of.
double DefaultBytes(const KernelView& view);

}  // namespace prism::replayer
