// How many bytes a memory-bound kernel moves, by the framework op it belongs to and the shapes of
// that op's inputs.
#pragma once

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

// A kernel over lists of tensors (foreach, fused optimizers): bytes by its grid, because one op
// launches many of them. Nothing for other kernels.
std::optional<double> TensorListBytes(const KernelView& view);

// Bytes by the rule of the framework op; nothing where no rule knows the op.
std::optional<double> FrameworkOpBytes(const KernelView& view);

// The default: every input read once, the largest written once; by the grid where no shapes are
// known.
double DefaultBytes(const KernelView& view);

}  // namespace prism::replayer
