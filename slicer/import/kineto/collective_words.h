// What PyTorch and NCCL call a collective, in a profile → what it moves.
#pragma once

#include <optional>
#include <string_view>

#include "graph/op.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

// Whether NCCL runs it: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)".
bool IsNcclKernel(std::string_view kernel);

// The collective of the words that are known of it: where it was noted (`noted`, of the kernel or
// of the range that issued it), else its kernel's name without the bytes (0). Nothing for messages
// between two ranks, and for NCCL's sends and receives of which nothing is noted.
std::optional<graph::CollectiveShape> ShapeOf(const KinetoCollective& noted,
                                              std::string_view kernel);

}  // namespace prism::slicer
