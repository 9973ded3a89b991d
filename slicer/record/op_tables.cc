// Ids count by first use within an iteration, so equal calls of two iterations, or of two
// processes, may have different ids: one more kernel at the front renumbers all. Ops are therefore
// compared by what their ids refer to. Streams and dependencies have no such names and are compared
// as they are.
#include "slicer/record/op_tables.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/describe.h"
#include "graph/program/collective_kinds.h"
#include "slicer/record/iteration_rule.h"

namespace prism::slicer {

namespace {

using graph::OpKind;

bool SameTransferButForBytes(const graph::PeerTransfer& a,
                             const OpTables& a_tables,
                             const graph::PeerTransfer& b,
                             const OpTables& b_tables) {
  return a.is_send == b.is_send &&
         a_tables.peer_slots[a.peer_slot] == b_tables.peer_slots[b.peer_slot] &&
         a_tables.comm_slots[a.comm_slot] == b_tables.comm_slots[b.comm_slot];
}

bool SameBytes(const graph::PeerGroup& a, const graph::PeerGroup& b) {
  return std::ranges::equal(a.transfers, b.transfers, {}, &graph::PeerTransfer::bytes,
                            &graph::PeerTransfer::bytes);
}

std::string DescribeCommunicator(const RecordedCommunicator& comm) {
  return comm.members_known
             ? fmt::format("communicator {} of {}", comm.name, graph::RanksText(comm.members))
             : fmt::format("communicator {} of {} ranks", comm.name, comm.size);
}

}  // namespace

bool MayComeAndGo(OpKind kind, uint32_t signature, const std::vector<std::string>& strings) {
  return kind == OpKind::kSegmentAlloc || kind == OpKind::kSegmentFree ||
         (kind == OpKind::kMarker && strings[signature] != kIterationMarker);
}

bool SameOp(const CanonicalOp& a,
            const OpTables& a_tables,
            const CanonicalOp& b,
            const OpTables& b_tables) {
  if (a.kind != b.kind || a.flags != b.flags || a.stream != b.stream || a.dep != b.dep ||
      a.value != b.value) {
    return false;
  }
  switch (a.kind) {
    case OpKind::kKernel:
      return graph::SignatureKey(a_tables.signatures[a.signature], a_tables.strings) ==
             graph::SignatureKey(b_tables.signatures[b.signature], b_tables.strings);
    case OpKind::kMarker:
      return a_tables.strings[a.signature] == b_tables.strings[b.signature];
    case OpKind::kCollective:
      return a_tables.collectives[a.signature].bytes == b_tables.collectives[b.signature].bytes &&
             SameButForBytes(a, a_tables, b, b_tables);
    case OpKind::kPeerGroup:
      return SameBytes(a_tables.peer_groups[a.signature], b_tables.peer_groups[b.signature]) &&
             SameButForBytes(a, a_tables, b, b_tables);
    default:
      return true;
  }
}

bool SameButForBytes(const CanonicalOp& a,
                     const OpTables& a_tables,
                     const CanonicalOp& b,
                     const OpTables& b_tables) {
  if (a.kind != b.kind || a.stream != b.stream) {
    return false;
  }
  if (a.kind == OpKind::kCollective) {
    graph::CollectiveShape a_shape = a_tables.collectives[a.signature];
    a_shape.bytes = b_tables.collectives[b.signature].bytes;
    return a_shape == b_tables.collectives[b.signature] &&
           a_tables.comm_slots[a.comm_slot] == b_tables.comm_slots[b.comm_slot];
  }
  const auto& a_transfers = a_tables.peer_groups[a.signature].transfers;
  const auto& b_transfers = b_tables.peer_groups[b.signature].transfers;
  return std::ranges::equal(a_transfers, b_transfers, [&](const auto& left, const auto& right) {
    return SameTransferButForBytes(left, a_tables, right, b_tables);
  });
}

int64_t ReducedBytes(const CanonicalOp& op, const OpTables& tables) {
  if (op.kind != OpKind::kCollective) {
    return 0;
  }
  const graph::CollectiveShape& shape = tables.collectives[op.signature];
  return graph::Reduces(shape.kind) ? shape.bytes : 0;
}

int64_t MatrixProducts(const CanonicalOp& op, const OpTables& tables) {
  return op.kind == OpKind::kKernel && tables.signatures[op.signature].matmul.m > 0 ? 1 : 0;
}

std::string DescribeOp(const CanonicalOp& op, const OpTables& tables) {
  return graph::DescribeOp(
      op,
      {.strings = tables.strings,
       .signatures = tables.signatures,
       .collectives = tables.collectives,
       .peer_groups = tables.peer_groups,
       .communicator = [&](uint16_t slot) { return DescribeCommunicator(tables.comm_slots[slot]); },
       .peer =
           [&](uint16_t slot) { return fmt::format("rank {}", tables.peer_slots[slot].value()); }});
}

}  // namespace prism::slicer
