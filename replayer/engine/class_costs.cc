// Collectives of one NCCL group on one communicator run one after the other, so each ends its own
// time after the one before; sends and receives of a group share the NIC and are costed together. A
// collective slows compute beside it, but where the two overlap is only known in the evaluation,
// whose order must not matter. The charge is therefore static: at most the collective's own time
// and at most the compute issued beside it, paid by the wait that ends the overlap.
#include "replayer/engine/class_costs.h"

#include <algorithm>
#include <cmath>

namespace prism::replayer {
namespace {

// By post: its time beside the others of its group, and inside a node beside those of its batch.
std::vector<DurationNs> SharedTransfers(const RolePlan& plan,
                                        const ClassWiring& wiring,
                                        const CollectiveCost& cost) {
  const auto load_of = [&](uint32_t p) -> PeerLoad {
    const PeerPost& post = plan.posts[p];
    return {post.bytes, plan.endpoints[post.endpoint].is_send, wiring.reach[post.endpoint]};
  };
  std::vector<DurationNs> shared;
  std::vector<PeerLoad> loads;
  for (const PeerPosts& group : plan.groups) {
    loads.clear();
    for (uint32_t p = group.begin; p < group.end; ++p) {
      loads.push_back(load_of(p));
    }
    const std::vector<DurationNs> alone = cost.PeerTransfers(loads);
    shared.insert(shared.end(), alone.begin(), alone.end());
  }
  for (size_t first = 0; first < plan.groups.size();) {
    size_t last = first + 1;
    while (last < plan.groups.size() && plan.groups[last].batch == plan.groups[first].batch) {
      ++last;
    }
    loads.clear();
    std::vector<uint32_t> posts;
    for (uint32_t p = plan.groups[first].begin; last > first + 1 && p < plan.groups[last - 1].end;
         ++p) {
      if (load_of(p).reach == PeerLoad::Reach::kNode) {
        loads.push_back(load_of(p));
        posts.push_back(p);
      }
    }
    const std::vector<DurationNs> beside = cost.PeerTransfers(loads);
    for (size_t i = 0; i < posts.size(); ++i) {
      shared[posts[i]] = beside[i];
    }
    first = last;
  }
  return shared;
}

}  // namespace

TransferCosts CostTransfers(const RolePlan& plan,
                            const ClassWiring& wiring,
                            const CollectiveCost& cost,
                            double comm_scale) {
  TransferCosts costs;
  const auto scaled = [comm_scale](DurationNs duration, double factor) {
    factor *= comm_scale;
    return factor == 1 ? duration : std::llround(static_cast<double>(duration) * factor);
  };
  for (const TransferKind& kind : plan.transfers) {
    const CommTopology& topology = wiring.comms[kind.comm_slot];
    const graph::CollectiveShape& shape = plan.program->collectives[kind.shape];
    costs.transfer_ns.push_back(kind.fixed_ns >= 0
                                    ? scaled(kind.fixed_ns, SlowFactor(shape.kind, topology))
                                    : scaled(cost.Collective(shape, topology), 1));
  }
  for (const CollectiveCall& call : plan.calls) {
    const DurationNs before =
        call.previous_on_slot == kNone ? 0 : costs.call_ns[call.previous_on_slot];
    costs.call_ns.push_back(before + costs.transfer_ns[call.transfer]);
  }
  const std::vector<DurationNs> shared = SharedTransfers(plan, wiring, cost);
  for (uint32_t p = 0; p < plan.posts.size(); ++p) {
    const PeerPost& post = plan.posts[p];
    const DurationNs duration = post.fixed_ns >= 0 ? post.fixed_ns : shared[p];
    costs.post_ns.push_back(scaled(duration, wiring.slow_factor[post.endpoint]));
  }
  return costs;
}

std::vector<DurationNs> CostCharges(std::span<const ChargeSource> sources,
                                    uint32_t charge_count,
                                    std::span<const DurationNs> transfer_ns,
                                    double overlap_slowdown) {
  std::vector<DurationNs> charges(charge_count, 0);
  for (const ChargeSource& source : sources) {
    const DurationNs beside = std::min(transfer_ns[source.transfer], source.compute_ns);
    charges[source.charge] += std::llround((overlap_slowdown - 1) * static_cast<double>(beside));
  }
  return charges;
}

}  // namespace prism::replayer
