// What transfers and overlap cost one class of ranks: the part of its durations that depends on
// where its communicators and peers are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/base/time.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/engine/role_plan.h"

namespace prism::replayer {

// Where the other ends of a class are.
struct ClassWiring {
  std::vector<CommTopology> comms;     // by communicator slot
  std::vector<PeerLoad::Reach> reach;  // by endpoint of the plan
  std::vector<double> slow_factor;     // by endpoint: of the slowest link on the path

  auto operator<=>(const ClassWiring&) const = default;
};

struct TransferCosts {
  std::vector<DurationNs> transfer_ns;  // by TransferKind
  std::vector<DurationNs> call_ns;      // by call: until its end, from the start of its group
  std::vector<DurationNs> post_ns;      // by PeerPost
};

// `comm_scale` as in ReplayOptions.
TransferCosts CostTransfers(const RolePlan& plan,
                            const ClassWiring& wiring,
                            const CollectiveCost& cost,
                            double comm_scale);

// What each of `charge_count` overlap charges adds to the wait that pays it. `overlap_slowdown`:
// how much longer compute takes while a collective runs.
std::vector<DurationNs> CostCharges(std::span<const ChargeSource> sources,
                                    uint32_t charge_count,
                                    std::span<const DurationNs> transfer_ns,
                                    double overlap_slowdown);

}  // namespace prism::replayer
