// Hand-made graphs of a few ops for tests with numbers in their comments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace prism::testing {

// The columns of one op; what an op does not need stays at its default.
struct TinyOp {
  graph::OpKind kind = graph::OpKind::kKernel;
  uint16_t stream = 0;
  int64_t value = 0;  // nanoseconds of kernels, gaps, collectives and groups (kDurationFixed)
  uint32_t dep = graph::kNoDep;
  uint16_t comm_slot = graph::kNoSlot;
  std::vector<graph::PeerTransfer> transfers;  // kPeerGroup
  uint8_t flags = 0;                           // beside kDurationFixed
};

TinyOp Kernel(uint16_t stream, DurationNs duration);
TinyOp Collective(uint16_t stream, uint16_t comm_slot, DurationNs duration);
TinyOp Record(uint16_t stream);
TinyOp Wait(uint16_t stream, uint32_t record_op);
TinyOp EventSync(uint32_t record_op);
TinyOp Sync();  // of the device
TinyOp Gap(DurationNs duration);
// A send or receive of `bytes` that takes `duration`.
TinyOp Send(uint16_t stream, uint16_t peer_slot, DurationNs duration, int64_t bytes = 1 << 20);
TinyOp Receive(uint16_t stream, uint16_t peer_slot, DurationNs duration, int64_t bytes = 1 << 20);

// One role per rank; every rank is in communicator 0 (slot 0), and peer slot i is rank i. The
// cluster is TestCluster without host costs.
graph::Graph TinyGraph(const std::vector<std::vector<TinyOp>>& ranks, uint16_t streams = 2);

}  // namespace prism::testing
