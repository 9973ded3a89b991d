// How long a collective or a send takes once all its members are there: NCCL's algorithms (ring,
// tree, NVLS) and protocols (LL, LL128, Simple) in the form of NCCL's own tuner, fixed latency plus
// steps times latency per step plus bytes over bandwidth, the fastest of them by message size.
#pragma once

#include <cstdint>
#include <span>

#include "graph/base/ids.h"
#include "graph/base/time.h"
#include "graph/cluster.h"
#include "graph/op.h"

namespace prism::replayer {

// What the cost of a communicator depends on. Ranks fill nodes in order, gpus_per_node a node.
struct CommTopology {
  int32_t size = 1;            // ranks
  int32_t nodes = 1;           // nodes spanned
  int32_t ranks_per_node = 1;  // on the fullest node
  double slow_factor = 1;      // of the slowest link on its way (perturbation)

  auto operator<=>(const CommTopology&) const = default;
};

CommTopology TopologyOf(std::span<const uint32_t> members, int32_t gpus_per_node);

class CollectiveCost {
 public:
  // `cluster` must have every key of parameters.h.
  explicit CollectiveCost(const graph::ClusterSpec& cluster);

  [[nodiscard]] DurationNs Collective(const graph::CollectiveShape& shape,
                                      const CommTopology& topology) const;

  // One send with its receive.
  [[nodiscard]] DurationNs PeerTransfer(int64_t bytes, bool same_node) const;

  // Whether a send of that size returns without its receiver.
  [[nodiscard]] bool IsEager(int64_t bytes) const { return bytes < eager_bytes_; }

 private:
  static constexpr int kProtocols = 3;  // LL, LL128, Simple

  // Latencies in seconds, by protocol.
  struct Latencies {
    double base[kProtocols];
    double intra[kProtocols];
    double inter[kProtocols];
  };

  [[nodiscard]] double RingSeconds(const graph::CollectiveShape& shape,
                                   const CommTopology& topology,
                                   int protocol) const;
  [[nodiscard]] double TreeSeconds(const graph::CollectiveShape& shape,
                                   const CommTopology& topology,
                                   int protocol) const;
  [[nodiscard]] double NvlsSeconds(const graph::CollectiveShape& shape,
                                   const CommTopology& topology) const;
  [[nodiscard]] double AllToAllSeconds(const graph::CollectiveShape& shape,
                                       const CommTopology& topology) const;
  [[nodiscard]] double BusBandwidth(const CommTopology& topology) const;
  [[nodiscard]] double NetworkBandwidth(const CommTopology& topology) const;
  [[nodiscard]] double LowLatencyCap(const CommTopology& topology) const;

  Latencies ring_ = {};
  Latencies tree_ = {};
  double ring_busbw_ = 0;
  double nvls_busbw_ = 0;
  double nvls_latency_ = 0;
  double nic_bandwidth_ = 0;  // achieved, one NIC
  double nics_per_node_ = 1;
  double gpus_per_node_ = 1;
  double nvlink_bandwidth_ = 0;  // achieved by send and receive
  double loss_per_doubling_ = 0;
  double ll_factor_ = 0;
  double ll128_factor_ = 0;
  double tree_factor_ = 0;
  double tree_ll_factor_ = 0;
  double tree_ll128_factor_ = 0;
  double ll_cap_[3] = {};  // one, two, more nodes
  double post_overhead_ = 0;
  double p2p_base_ = 0;
  int64_t eager_bytes_ = 0;
};

}  // namespace prism::replayer
