#include "slicer/synthesize/op_list.h"

#include "graph/base/intern.h"
#include "graph/describe.h"

namespace prism::slicer {
using graph::OpKind;

OpList::OpList() {
  constexpr size_t kUsualOps = 8;  // at most: room for them is asked for once
  program_.stream_count = graph::kStageStreamCount;
  program_.kind.reserve(kUsualOps);
  program_.flags.reserve(kUsualOps);
  program_.stream.reserve(kUsualOps);
  program_.signature.reserve(kUsualOps);
}

uint32_t OpList::Record(uint16_t stream, uint32_t slot) {
  return program_.Append({.kind = OpKind::kEventRecord,
                          .stream = stream,
                          .value = slot == kNoEventSlot ? 0 : int64_t{slot} + 1});
}

void OpList::Wait(uint16_t stream, uint32_t record_op) {
  program_.Append({.kind = OpKind::kEventWait, .stream = stream, .dep = record_op});
}

void OpList::WaitSlot(uint16_t stream, uint32_t slot) {
  program_.Append({.kind = OpKind::kEventWait, .stream = stream, .value = int64_t{slot} + 1});
}

void OpList::Collective(uint16_t stream,
                        graph::GroupAxis axis,
                        const graph::CollectiveShape& shape) {
  program_.Append({.kind = OpKind::kCollective,
                   .stream = stream,
                   .comm_slot = graph::SlotOf(axis),
                   .signature = InternValue(program_.collectives, shape)});
}

void OpList::PeerGroup(uint16_t stream, const graph::PeerGroup& group) {
  program_.Append({.kind = OpKind::kPeerGroup,
                   .stream = stream,
                   .signature = InternValue(program_.peer_groups, group)});
}

void OpList::HostCopy(uint16_t stream, int64_t bytes, uint8_t direction) {
  program_.Append({.kind = OpKind::kMemcpy, .flags = direction, .stream = stream, .value = bytes});
}

void OpList::HostGap(DurationNs duration_ns) {
  program_.Append({.kind = OpKind::kHostGap, .value = duration_ns});
}

void OpList::DeviceSync() {
  program_.Append({.kind = OpKind::kDeviceSync});
}

void OpList::Marker(uint32_t name, bool begins) {
  program_.Append({.kind = OpKind::kMarker,
                   .flags = begins ? graph::kMarkerBegin : graph::kMarkerEnd,
                   .signature = name});
}

void OpList::Blocking(graph::GroupAxis axis, const graph::CollectiveShape& shape) {
  Collective(graph::kStageComputeStream, axis, shape);
  Record(graph::kStageComputeStream);
  Record(graph::kStageComputeStream);
}

void OpList::Start(graph::GroupAxis axis, const graph::CollectiveShape& shape, uint32_t slot) {
  const uint16_t stream = graph::StageStream(axis);
  Wait(stream, Record(graph::kStageComputeStream));
  Collective(stream, axis, shape);
  Record(stream, slot);
  Record(stream);
}

void OpList::Append(const graph::Program& program) {
  std::vector<uint32_t> copied;
  for (uint32_t op = 0; op < program.size(); ++op) {
    CopyOp(program, op, &copied);
  }
}

void OpList::Copy(const graph::Program& block, uint32_t begin, uint32_t end) {
  if (copied_.size() < begin) {
    copied_.resize(begin, graph::kNoDep);
  }
  for (auto op = static_cast<uint32_t>(copied_.size()); op < end; ++op) {
    CopyOp(block, op, &copied_);
  }
}

void OpList::CopyOp(const graph::Program& block, uint32_t op, std::vector<uint32_t>* copied) {
  graph::OpRow row = graph::RowOf(block, op);
  if (row.dep != graph::kNoDep) {
    row.dep = (*copied)[row.dep];
  }
  if (row.kind == OpKind::kCollective) {
    row.signature = InternValue(program_.collectives, block.collectives[row.signature]);
  } else if (row.kind == OpKind::kPeerGroup) {
    row.signature = InternValue(program_.peer_groups, block.peer_groups[row.signature]);
  }
  copied->push_back(program_.Append(row));
}

}  // namespace prism::slicer
