#include "slicer/record/host_meter.h"

namespace prism::slicer {

using channel::RecordKind;
using graph::OpKind;

std::optional<OpKind> ChargedOp(RecordKind kind) {
  switch (kind) {
    case RecordKind::kKernel:
    case RecordKind::kMatmul:
      return OpKind::kKernel;
    case RecordKind::kMemcpy:
      return OpKind::kMemcpy;
    case RecordKind::kMemset:
      return OpKind::kMemset;
    case RecordKind::kEventRecord:
      return OpKind::kEventRecord;
    case RecordKind::kEventWait:
      return OpKind::kEventWait;
    case RecordKind::kSync:
      return OpKind::kStreamSync;
    case RecordKind::kCollective:
      return OpKind::kCollective;
    case RecordKind::kGroupEnd:
      return OpKind::kPeerGroup;
    case RecordKind::kSegmentAlloc:
      return OpKind::kSegmentAlloc;
    case RecordKind::kSegmentFree:
      return OpKind::kSegmentFree;
    default:
      return std::nullopt;
  }
}

void HostMeter::Add(const channel::Record& record) {
  const std::optional<OpKind> kind = ChargedOp(record.kind);
  if (record.host_ns == 0 || !kind) {
    return;
  }
  times_.resize(graph::kOpKindCount);
  graph::HostTime& time = times_[static_cast<size_t>(*kind)];
  ++time.calls;
  time.total_ns += record.host_ns;
}

}  // namespace prism::slicer
