// Ops in words. Apart from op_stream.cc, which runs for every record; this runs for messages only.
#include <fmt/format.h>

#include "graph/op.h"
#include "slicer/record/definitions.h"
#include "slicer/record/op_stream.h"

namespace prism::slicer {

namespace {

using graph::OpKind;

std::string DescribeKernel(const CanonicalOp& op, const OpTables& tables) {
  const graph::KernelSignature& signature = tables.signatures[op.signature];
  std::string text = "kernel " + tables.strings[signature.name.value()];
  const graph::MatmulShape& matmul = signature.matmul;
  if (matmul.m > 0) {
    text += fmt::format(" {}x{}x{} batch {}", matmul.m, matmul.n, matmul.k, matmul.batch);
  } else {
    text +=
        fmt::format(" grid {},{},{} block {},{},{}", signature.grid[0], signature.grid[1],
                    signature.grid[2], signature.block[0], signature.block[1], signature.block[2]);
  }
  const FrameworkContext context = {.op = tables.strings[signature.framework_op.value()],
                                    .inputs = signature.inputs};
  return context.op.empty() ? text : text + " in " + DescribeContext(context);
}

std::string DescribeCollective(const CanonicalOp& op, const OpTables& tables) {
  const graph::CollectiveShape& shape = tables.collectives[op.signature];
  const RecordedCommunicator& comm = tables.comm_slots[op.comm_slot];
  return fmt::format("{} of {} bytes {} in group \"{}\" ({} ranks)",
                     graph::CollectiveKindName(shape.kind), shape.bytes,
                     graph::DataTypeName(shape.dtype), comm.name, comm.size);
}

std::string DescribePeerGroup(const CanonicalOp& op, const OpTables& tables) {
  std::string text;
  for (const graph::PeerTransfer& transfer : tables.peer_groups[op.signature].transfers) {
    text += fmt::format("{}{} {} bytes {} rank {}", text.empty() ? "" : ", ",
                        transfer.is_send ? "send" : "recv", transfer.bytes,
                        transfer.is_send ? "to" : "from",
                        tables.peer_slots[transfer.peer_slot].value());
  }
  return text;
}

std::string DescribeEvent(const char* what, const CanonicalOp& op) {
  return op.dep == graph::kNoDep
             ? fmt::format("{} of an event recorded in an earlier iteration", what)
             : fmt::format("{} of the event recorded by op {}", what, op.dep);
}

std::string DescribeBody(const CanonicalOp& op, const OpTables& tables) {
  switch (op.kind) {
    case OpKind::kKernel:
      return DescribeKernel(op, tables);
    case OpKind::kMemcpy:
      return fmt::format("copy of {} bytes {}", op.value,
                         (op.flags & graph::kHostToDevice) != 0   ? "host to device"
                         : (op.flags & graph::kDeviceToHost) != 0 ? "device to host"
                                                                  : "device to device");
    case OpKind::kMemset:
      return fmt::format("memset of {} bytes", op.value);
    case OpKind::kHostGap:
      return fmt::format("host gap of {} ns", op.value);
    case OpKind::kEventRecord:
      return "event record";
    case OpKind::kEventWait:
      return DescribeEvent("stream wait", op);
    case OpKind::kEventSync:
      return DescribeEvent("host wait", op);
    case OpKind::kStreamSync:
      return "stream synchronisation";
    case OpKind::kDeviceSync:
      return "device synchronisation";
    case OpKind::kCollective:
      return DescribeCollective(op, tables);
    case OpKind::kPeerGroup:
      return DescribePeerGroup(op, tables);
    case OpKind::kSegmentAlloc:
      return fmt::format("allocation of a segment of {} bytes", op.value);
    case OpKind::kSegmentFree:
      return fmt::format("release of a segment of {} bytes", op.value);
    case OpKind::kMarker:
      return fmt::format("{} of marker \"{}\"",
                         (op.flags & graph::kMarkerBegin) != 0 ? "begin" : "end",
                         tables.strings[op.signature]);
  }
  return "unknown op";
}

}  // namespace

std::string DescribeOp(const CanonicalOp& op, const OpTables& tables) {
  const std::string body = DescribeBody(op, tables);
  return graph::HasStream(op.kind) ? fmt::format("{} on stream {}", body, op.stream) : body;
}

}  // namespace prism::slicer
