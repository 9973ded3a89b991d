// Where a collective happens on the device: on the virtual one values move at the call, since
// nothing else runs, or later where other members stay away (virtual_values.cc,
// shim/nccl/deferred_moves.h); on a real one in the order of the stream, while a hold
// stands in it (shim/gpu/held_values.cc).
#pragma once

#include <cstdint>
#include <span>

#include "shim/nccl/group.h"

namespace prism::shim {

// A program's stream as the NCCL replacement sees it: the virtual device's stream, for which
// records are made, and the hold stream + 1 of the holds on the real one (shim/gpu/hold_logic.h; 0:
// none).
struct NcclStream {
  cudaStream_t recorded;
  uint32_t hold_stream;
};
NcclStream StreamOfCall(cudaStream_t given);

// Moves the values of a collective, or of all sends and receives of a group, whose records have
// been sent.
ncclResult_t MoveCollective(const NcclOp& op, uint32_t sequence);
ncclResult_t MoveTransfers(std::span<const NcclOp> ops);

// The ops become part of a graph, whose launches call the two functions above. Stores in each op
// what a launch needs.
ncclResult_t Capture(std::span<NcclOp> ops);

}  // namespace prism::shim
