// What buffers hold after a collective: the exchange over a memory, in which members outside the
// sandbox contribute what the lowest one inside does (exchange.h); what roots and peers outside
// send is in absent_members.h.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "shim/nccl/group.h"

namespace prism::shim {

// The values of one collective, or of all sends and receives of a group, at the addresses of its
// ops. Locks the communicators. Failures are kept as their async error and as the last error.
ncclResult_t ExchangeCollective(const NcclOp& op, uint32_t sequence, Memory* memory);
ncclResult_t ExchangeTransfers(std::span<const NcclOp> ops, Memory* memory);

// The same for a caller that may continue without the others (deferred_moves.h): null while they
// are late, then the result. Both functions are called again until there is one; the memory must
// live that long.
class CollectiveExchange {
 public:
  CollectiveExchange(const NcclOp& op, uint32_t sequence, Memory* memory)
      : op_(op), sequence_(sequence), memory_(memory) {}
  std::optional<ncclResult_t> Run(Patience patience);

 private:
  NcclOp op_;
  uint32_t sequence_;
  Memory* memory_;
  std::optional<uint32_t> number_;  // Exchange::Announce
};

class TransfersExchange {
 public:
  TransfersExchange(std::vector<NcclOp> ops, Memory* memory);
  std::optional<ncclResult_t> Run(Patience patience);

 private:
  std::vector<NcclOp> ops_;
  Memory* memory_;
  std::unique_ptr<TransferRun> run_;  // once those with absent peers are done
};

}  // namespace prism::shim
