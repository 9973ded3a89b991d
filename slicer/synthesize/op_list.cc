#include "slicer/synthesize/op_list.h"

#include "graph/base/intern.h"
#include "graph/describe.h"

namespace prism::slicer {
using graph::OpKind;

graph::Program OpList::Program() const {
  graph::Program program;
  program.stream_count = graph::kStageStreamCount;
  program.kind.reserve(rows_.size());
  program.flags.reserve(rows_.size());
  program.stream.reserve(rows_.size());
  program.signature.reserve(rows_.size());
  for (const graph::OpRow& row : rows_) {
    program.Append(row);
  }
  program.collectives = collectives_;
  program.peer_groups = peer_groups_;
  return program;
}

std::vector<int64_t> OpList::Content() const {
  std::vector<int64_t> content;
  content.reserve(3 * rows_.size() + 5 * collectives_.size());
  for (const graph::OpRow& row : rows_) {
    content.insert(content.end(),
                   {int64_t{static_cast<uint8_t>(row.kind)} << 40 | int64_t{row.flags} << 32 |
                        int64_t{row.stream} << 16 | int64_t{row.comm_slot},
                    int64_t{row.signature} << 32 | int64_t{row.dep}, row.value});
  }
  for (const graph::CollectiveShape& shape : collectives_) {
    content.insert(content.end(),
                   {static_cast<int64_t>(shape.kind), static_cast<int64_t>(shape.dtype),
                    static_cast<int64_t>(shape.reduce), shape.root, shape.bytes});
  }
  for (const graph::PeerGroup& group : peer_groups_) {
    for (const graph::PeerTransfer& transfer : group.transfers) {
      content.insert(content.end(), {transfer.is_send ? 1 : 0, transfer.comm_slot,
                                     transfer.peer_slot, transfer.bytes});
    }
    content.push_back(-1);
  }
  return content;
}

uint32_t OpList::Append(const graph::OpRow& row) {
  constexpr size_t kUsualOps = 8;  // upper bound: capacity is reserved once
  if (rows_.empty()) {
    rows_.reserve(kUsualOps);
  }
  rows_.push_back(row);
  return static_cast<uint32_t>(rows_.size() - 1);
}

uint32_t OpList::Record(uint16_t stream, uint32_t slot) {
  return Append({.kind = OpKind::kEventRecord,
                 .stream = stream,
                 .value = slot == kNoEventSlot ? 0 : int64_t{slot} + 1});
}

void OpList::Wait(uint16_t stream, uint32_t record_op) {
  Append({.kind = OpKind::kEventWait, .stream = stream, .dep = record_op});
}

void OpList::WaitSlot(uint16_t stream, uint32_t slot) {
  Append({.kind = OpKind::kEventWait, .stream = stream, .value = int64_t{slot} + 1});
}

void OpList::Collective(uint16_t stream,
                        graph::GroupAxis axis,
                        const graph::CollectiveShape& shape) {
  Append({.kind = OpKind::kCollective,
          .stream = stream,
          .comm_slot = graph::SlotOf(axis),
          .signature = InternValue(collectives_, shape)});
}

void OpList::PeerGroup(uint16_t stream, const graph::PeerGroup& group) {
  Append({.kind = OpKind::kPeerGroup,
          .stream = stream,
          .signature = InternValue(peer_groups_, group)});
}

void OpList::HostCopy(uint16_t stream, int64_t bytes, uint8_t direction) {
  Append({.kind = OpKind::kMemcpy, .flags = direction, .stream = stream, .value = bytes});
}

void OpList::HostGap(DurationNs duration_ns) {
  Append({.kind = OpKind::kHostGap, .value = duration_ns});
}

void OpList::DeviceSync() {
  Append({.kind = OpKind::kDeviceSync});
}

void OpList::Marker(uint32_t name, bool begins) {
  Append({.kind = OpKind::kMarker,
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
    row.signature = InternValue(collectives_, block.collectives[row.signature]);
  } else if (row.kind == OpKind::kPeerGroup) {
    row.signature = InternValue(peer_groups_, block.peer_groups[row.signature]);
  }
  copied->push_back(Append(row));
}

}  // namespace prism::slicer
