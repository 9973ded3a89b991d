// What PyTorch and NCCL call a collective, in a profile → what it moves.
#pragma once

#include <optional>
#include <string_view>

#include "graph/program/op.h"
#include "slicer/import/kineto/trace_file.h"

namespace prism::slicer {

// Whether a process group runs it: NCCL ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", and
// "ncclAllReduceRingLLKernel_sum_f32(...)" up to 2.9), what derives from it, or any kernel that
// PyTorch noted as a collective.
bool IsCollective(const KinetoRange& task);

// Whether another library runs it that communicates by itself (DeepEP, NVSHMEM, custom
// all_reduces): kinds of what such kernels do are those of their names, what they move is not
// known.
bool IsOtherCommunication(std::string_view kernel);

// The collective by its names in the profile: as noted (`noted`, at the kernel or at the range that
// issued it), else from the kernel's name, with 0 bytes. Null for messages between two ranks, and
// for NCCL's sends and receives without a note.
std::optional<graph::CollectiveShape> ShapeOf(const KinetoCollective& noted,
                                              std::string_view kernel);

// By c10::ScalarType's names, and those of C++ in older profiles.
DataType NotedType(std::string_view name);

// What the noted elements take; 0 if their type is not known.
int64_t BytesOf(const KinetoCollective& noted);

}  // namespace prism::slicer
