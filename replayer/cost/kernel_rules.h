// How many bytes a memory-bound kernel moves, from the framework op it belongs to and the shapes of
// that op's inputs.
//
// How to name a kernel that was never recorded (synthesised blocks), so that its bytes are right:
// - A plain op keeps its framework name (aten::native_layer_norm, aten::_softmax, aten::mm with
//   `matmul` filled in, aten::_flash_attention_forward with q, k, v first), inputs as torch passes
//   them.
// - A fused kernel is "fused::NAME" (fused::bias_dropout_add, fused::swiglu_backward, fused::rope,
//   fused::adam). Its `inputs` are every tensor that it reads or writes, once for each access:
//   bytes are their plain sum. A tensor updated in place is listed twice.
// - A fused matrix product or attention fills `matmul`, or is named like the attention op, whatever
//   else it fuses: its FLOPs decide.
// - Attention is flash v2 unless kernel or op name says "cudnn", "fused_attn" (Transformer Engine),
//   "flash_v3" or "hopper" (all: kHopper), or "flash_v1" (kFlash1, as kernels with the names of
//   Triton's first attention).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/program/signature.h"

namespace prism::replayer {

inline bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What the rules see of a kernel: names resolved, shapes by reference.
struct KernelView {
  std::string_view kernel;        // demangled name
  std::string_view framework_op;  // e.g. aten::add_
  const graph::KernelSignature& signature;
};

// "aten::add_" -> "add", "aten::sum.dim_IntList" -> "sum".
std::string_view BareOpName(std::string_view op);

// A kernel over lists of tensors (foreach, fused optimizers): bytes from its grid, because one op
// launches many of them. Null for other kernels.
std::optional<double> TensorListBytes(const KernelView& view);

// Bytes by the rule of the framework op; null if no rule covers the op.
std::optional<double> FrameworkOpBytes(const KernelView& view);

// The default: every input read once, the largest written once; from the grid if no shapes are
// known, or only those of a whole region that torch.compile compiled into many kernels.
double DefaultBytes(const KernelView& view);

}  // namespace prism::replayer
