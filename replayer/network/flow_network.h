// Transfers on a network that they share: the clock of a flow replay.
//
// A transfer becomes flows (replayer/network/collective_flows.h), each bounded by the rate at which
// it would run alone. It ends when its last flow ends, plus its latency, and never before the time
// that the analytic model gives: where nothing is shared both agree to the nanosecond.
//
// Conservative order. Add takes transfers whose start is known; Next runs the network until some
// transfer ends. The caller must have added every transfer that can start before the earliest end;
// an engine that cannot advance has done so, because whatever it does not know yet depends on such
// an end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "graph/base/time.h"
#include "replayer/engine/replay_result.h"
#include "replayer/network/collective_flows.h"
#include "replayer/network/flow_queue.h"
#include "replayer/network/routing.h"
#include "replayer/network/topology.h"

namespace prism::replayer {

// Who a transfer belongs to: the caller's, handed back with its end.
struct TransferOwner {
  uint32_t job = 0;
  uint32_t id = 0;
};

struct NetworkTransfer {
  TransferOwner owner;
  TimeNs start = 0;         // not before the last end that Next gave
  DurationNs alone_ns = 0;  // from start to end on an otherwise idle network
  DurationNs flow_ns = 0;   // of that, how long its flows last
  DurationNs fixed_ns = 0;  // minimum time after the last flow
  uint64_t key = 0;         // names the connection for ECMP; equal in every iteration
  int32_t rounds = 1;       // as CollectiveFlows
  bool in_series = false;
  std::span<const EdgeFlow> edges;  // valid until the transfer has started
};

struct TransferEnd {
  TransferOwner owner;
  TimeNs end = 0;
};

struct NetworkSetup {
  graph::NetworkSpec spec;
  FabricSize size;
  uint64_t seed = 0;                // of ECMP
  std::vector<std::string> failed;  // as Router::Fail
};

class FlowNetwork {
 public:
  static Result<std::unique_ptr<FlowNetwork>> Create(const NetworkSetup& setup);

  void Add(const NetworkTransfer& transfer);

  // Runs to the next time at which transfers end, and says which, in an order that depends only on
  // the calls; none when nothing is in flight or waits. Fails, naming both NICs, where no path
  // leads from one to the other.
  Status Next(std::vector<TransferEnd>* ends);

  [[nodiscard]] int64_t flows_ended() const { return queue_.ended(); }

  // What has gone over the links so far, divided by `iterations`.
  [[nodiscard]] LinkLoads Loads(int32_t iterations) const;

 private:
  struct Open {
    NetworkTransfer transfer;
    uint32_t flows = 0;         // in flight
    DurationNs latency_ns = 0;  // between clusters
  };

  FlowNetwork(const NetworkSetup& setup, Topology topology);

  struct Waiting {
    TimeNs start = 0;
    uint64_t order = 0;  // of Add
    uint32_t slot = 0;

    // Heaps of the standard library have the largest in front.
    bool operator<(const Waiting& other) const {
      return start > other.start || (start == other.start && order > other.order);
    }
  };

  Status Start(uint32_t slot, std::vector<TransferEnd>* ends);
  Status StartEdge(uint32_t slot, const EdgeFlow& edge, uint32_t part);
  void End(uint32_t slot, TimeNs last_flow, std::vector<TransferEnd>* ends);

  Topology topology_;
  FlowQueue queue_;
  Router router_;
  double cluster_ns_ = 0;
  std::vector<Open> open_;        // by slot
  std::vector<uint32_t> unused_;  // slots
  std::vector<Waiting> waiting_;  // heap
  uint64_t added_ = 0;
  std::vector<double> link_bytes_;  // by link
  std::vector<uint32_t> ended_;     // storage
  std::vector<LinkId> way_;         // storage
};

}  // namespace prism::replayer
