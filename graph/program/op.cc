#include "graph/program/op.h"

#include "graph/program/collective_kinds.h"

namespace prism::graph {

bool HasStream(OpKind kind) {
  switch (kind) {
    case OpKind::kKernel:
    case OpKind::kMemcpy:
    case OpKind::kMemset:
    case OpKind::kEventRecord:
    case OpKind::kEventWait:
    case OpKind::kStreamSync:
    case OpKind::kCollective:
    case OpKind::kPeerGroup:
      return true;
    case OpKind::kHostGap:
    case OpKind::kEventSync:
    case OpKind::kDeviceSync:
    case OpKind::kSegmentAlloc:
    case OpKind::kSegmentFree:
    case OpKind::kMarker:
      return false;
  }
  return false;
}

uint32_t Program::Append(const OpRow& row) {
  kind.push_back(row.kind);
  flags.push_back(row.flags);
  stream.push_back(row.stream);
  comm_slot.push_back(row.comm_slot);
  signature.push_back(row.signature);
  dep.push_back(row.dep);
  value.push_back(row.value);
  return size() - 1;
}

void Program::AppendTimes(uint32_t times, const OpRow& row) {
  kind.insert(kind.end(), times, row.kind);
  flags.insert(flags.end(), times, row.flags);
  stream.insert(stream.end(), times, row.stream);
  comm_slot.append(times, row.comm_slot);
  signature.insert(signature.end(), times, row.signature);
  dep.append(times, row.dep);
  value.append(times, row.value);
}

void Program::ShrinkToFit() {
  kind.shrink_to_fit();
  flags.shrink_to_fit();
  stream.shrink_to_fit();
  comm_slot.shrink_to_fit();
  signature.shrink_to_fit();
  dep.shrink_to_fit();
  value.shrink_to_fit();
}

const char* CollectiveKindName(CollectiveKind kind) {
  return NameOf(kCollectiveKindNames, kind);
}

}  // namespace prism::graph
