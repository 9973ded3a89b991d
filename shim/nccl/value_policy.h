// What buffers hold after a collective: the exchange over device memory, with members outside of
// the sandbox standing behind the lowest one inside (exchange.h).
//
// Assumptions made on the way are counted: "absent_root_broadcast" (a broadcast or scatter whose
// root is virtual leaves valid bytes, zeros others), "virtual_recv" (a receive from a virtual peer
// gives zeros).
#pragma once

#include <span>

#include "shim/nccl/group.h"

namespace prism::shim {

// Moves the values of one collective, or of all sends and receives of a group. Locks the
// communicators. Failures are kept as their async error and as the last error.
ncclResult_t MoveCollective(const NcclOp& op, uint32_t sequence);
ncclResult_t MoveTransfers(std::span<const NcclOp> ops);

}  // namespace prism::shim
