// What buffers hold after a collective: the exchange over a memory, with members outside of the
// sandbox standing behind the lowest one inside (exchange.h); what roots and peers outside give is
// the business of absent_members.h.
#pragma once

#include <span>

#include "shim/nccl/group.h"

namespace prism::shim {

// The values of one collective, or of all sends and receives of a group, by the addresses of its
// ops. Locks the communicators. Failures are kept as their async error and as the last error.
ncclResult_t ExchangeCollective(const NcclOp& op, uint32_t sequence, Memory* memory);
ncclResult_t ExchangeTransfers(std::span<const NcclOp> ops, Memory* memory);

}  // namespace prism::shim
