// What buffers hold after a collective: the exchange over device memory, with members outside of
// the sandbox standing behind the lowest one inside (exchange.h); what roots and peers outside give
// is the business of absent_members.h.
#pragma once

#include <span>

#include "shim/nccl/group.h"

namespace prism::shim {

// Moves the values of one collective, or of all sends and receives of a group. Locks the
// communicators. Failures are kept as their async error and as the last error.
ncclResult_t MoveCollective(const NcclOp& op, uint32_t sequence);
ncclResult_t MoveTransfers(std::span<const NcclOp> ops);

}  // namespace prism::shim
