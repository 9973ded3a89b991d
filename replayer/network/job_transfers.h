// The transfers of one job as its network sees them: flows, bounds, latencies. Those of a
// collective are computed once per communicator and shape.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <tuple>

#include "graph/graph.h"
#include "replayer/cost/collective_cost.h"
#include "replayer/engine/engine.h"
#include "replayer/engine/meeting.h"
#include "replayer/network/flow_network.h"

namespace prism::replayer {

// The part of a cluster that a job's ranks occupy.
struct JobPlace {
  uint32_t job = 0;
  int32_t first_node = 0;
};

// The nodes of that many GPUs and the NICs that their ranks use, with what each carries.
FabricSize FabricSizeOf(const graph::ClusterSpec& cluster,
                        const CollectiveCost& cost,
                        uint32_t gpus);

// The same for a job, with transfers scaled as its options say.
FabricSize FabricSizeOf(const Engine& engine);

class JobTransfers {
 public:
  // The engine's graph, cost and options must outlive it.
  JobTransfers(const Engine& engine, const JobPlace& place);

  // Valid until the transfer has started.
  NetworkTransfer Describe(const ReadyTransfer& ready);

 private:
  struct Known {
    CollectiveFlows flows;
    NetworkShare share;
  };

  using Key = std::tuple<uint32_t, graph::CollectiveKind, int32_t, int64_t>;

  const Known& KnownOf(const ReadyTransfer& ready);
  void DescribeSend(const ReadyTransfer& ready, NetworkTransfer* transfer);

  const graph::Graph& graph_;
  const CollectiveCost& cost_;
  double comm_scale_;
  JobPlace place_;
  NicPlaces nics_;
  std::map<Key, Known> collectives_;  // by communicator, kind, root and bytes
  std::deque<EdgeFlow> sends_;        // by id of the transfer; spans stay valid while it grows
};

}  // namespace prism::replayer
