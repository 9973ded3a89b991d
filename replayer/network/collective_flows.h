// The flows between nodes that a collective is made of: one per edge of NCCL's ring or trees and
// per NIC pair, with all the bytes that the edge carries. Traffic inside a node is not a flow.
//
//   ring             node i to i + 1, round to the first: traffic of the ring (2 (n-1)/n of the
//                    bytes of an all_reduce over n ranks)
//   broadcast,       the same without the edge that closes the ring, from or to the root's node
//   reduce
//   tree, NVLSTree   two trees of nodes, each with half of the bytes, up and down every edge: the
//                    double binary tree of NCCL (src/graph/trees.cc)
//   CollNet          as a ring with the bytes once: a tree inside the switches leaves each of them
//                    once, as the ring does
//   all_to_all       every node to every other; from kMaxShifts + 1 nodes on, kMaxShifts evenly
//                    spread distances stand for all
//   gather, scatter  every node to or from the root's
//
// An edge is spread over the NICs of the communicator's ranks on both nodes. LL puts twice as many
// bytes on the wire, LL128 128 bytes for every 120.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/program/op.h"
#include "replayer/cost/nccl_tuner.h"

namespace prism::replayer {

struct EdgeFlow {
  int32_t from_node = 0;
  int32_t from_nic = 0;
  int32_t to_node = 0;
  int32_t to_nic = 0;
  double bytes = 0;
};

struct CollectiveFlows {
  std::vector<EdgeFlow> edges;
  // How often a byte has to cross a slow link that is on an edge: `rounds` times or, for a ring,
  // `rounds` times per such edge.
  int32_t rounds = 1;
  bool in_series = false;
};

// Where the ranks of a job are placed.
struct NicPlaces {
  int32_t gpus_per_node = 8;
  int32_t nics_per_node = 8;  // no more than GPUs
  // Data that must change NIC moves to another GPU inside the sending node (NCCL's PXN), so that a
  // flow stays on one rail.
  bool keeps_rail = true;

  std::span<const uint32_t> gpu_of;  // by rank; empty: rank r is on GPU r

  [[nodiscard]] int32_t GpuOf(uint32_t rank) const {
    return static_cast<int32_t>(gpu_of.empty() ? rank : gpu_of[rank]);
  }
  [[nodiscard]] int32_t NodeOf(uint32_t rank) const { return GpuOf(rank) / gpus_per_node; }
  [[nodiscard]] int32_t NicOf(uint32_t rank) const {
    return GpuOf(rank) % gpus_per_node * nics_per_node / gpus_per_node;
  }
};

inline constexpr int32_t kMaxShifts = 63;

// `members`: ranks, ascending; on at least two nodes. `choice`: the algorithm that NCCL takes; none
// for what NCCL implements by sends and receives.
CollectiveFlows FlowsOfCollective(const graph::CollectiveShape& shape,
                                  std::optional<NcclChoice> choice,
                                  std::span<const uint32_t> members,
                                  const NicPlaces& places);

// One send.
EdgeFlow FlowOfPeer(uint32_t sender, uint32_t receiver, int64_t bytes, const NicPlaces& places);

}  // namespace prism::replayer
