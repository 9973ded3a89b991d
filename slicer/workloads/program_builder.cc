#include "slicer/workloads/program_builder.h"

#include "graph/base/intern.h"
#include "graph/describe.h"

namespace prism::slicer {
using graph::OpKind;

ProgramBuilder::ProgramBuilder(Rank rank, uint16_t stream_count) {
  fragment_.rank = rank;
  fragment_.program.stream_count = stream_count;
  InternString("");
}

uint16_t ProgramBuilder::CommSlot(const std::string& name, const std::vector<Rank>& members) {
  const uint32_t slot =
      InternValue(fragment_.comm_slots, graph::FragmentCommunicator{name, members});
  fragment_.program.comm_slot_count = static_cast<uint16_t>(fragment_.comm_slots.size());
  return static_cast<uint16_t>(slot);
}

uint16_t ProgramBuilder::PeerSlot(Rank peer) {
  const uint32_t slot = InternValue(fragment_.peer_slots, peer);
  fragment_.program.peer_slot_count = static_cast<uint16_t>(fragment_.peer_slots.size());
  return static_cast<uint16_t>(slot);
}

void ProgramBuilder::Kernel(uint16_t stream,
                            const std::string& name,
                            DurationNs duration,
                            const graph::MatmulShape& matmul) {
  graph::KernelSignature signature;
  signature.name = StringId(InternString(name));
  signature.framework_op = StringId(0);
  signature.matmul = matmul;
  const auto [found, inserted] =
      signature_ids_.try_emplace(graph::SignatureKey(signature, fragment_.strings),
                                 static_cast<uint32_t>(fragment_.signatures.size()));
  if (inserted) {
    fragment_.signatures.push_back(std::move(signature));
  }
  fragment_.program.Append({.kind = OpKind::kKernel,
                            .flags = graph::kDurationFixed,
                            .stream = stream,
                            .signature = found->second,
                            .value = duration});
}

void ProgramBuilder::Collective(uint16_t stream,
                                uint16_t comm_slot,
                                const graph::CollectiveShape& shape) {
  fragment_.program.Append({.kind = OpKind::kCollective,
                            .stream = stream,
                            .comm_slot = comm_slot,
                            .signature = InternValue(fragment_.program.collectives, shape)});
}

void ProgramBuilder::PeerGroup(uint16_t stream, const graph::PeerGroup& group) {
  fragment_.program.Append({.kind = OpKind::kPeerGroup,
                            .stream = stream,
                            .signature = InternValue(fragment_.program.peer_groups, group)});
}

void ProgramBuilder::MarkerBegin(const std::string& name) {
  Marker(name, graph::kMarkerBegin);
}

void ProgramBuilder::MarkerEnd(const std::string& name) {
  Marker(name, graph::kMarkerEnd);
}

void ProgramBuilder::Order(uint16_t stream, uint16_t waiting) {
  Wait(waiting, Record(stream));
}

uint32_t ProgramBuilder::Record(uint16_t stream) {
  return fragment_.program.Append({.kind = OpKind::kEventRecord, .stream = stream});
}

void ProgramBuilder::Wait(uint16_t stream, uint32_t record_op) {
  fragment_.program.Append({.kind = OpKind::kEventWait, .stream = stream, .dep = record_op});
}

void ProgramBuilder::StreamSync(uint16_t stream) {
  fragment_.program.Append({.kind = OpKind::kStreamSync, .stream = stream});
}

void ProgramBuilder::DeviceSync() {
  fragment_.program.Append({.kind = OpKind::kDeviceSync});
}

graph::Fragment ProgramBuilder::Finish() {
  return std::move(fragment_);
}

void ProgramBuilder::Marker(const std::string& name, graph::OpFlag side) {
  fragment_.program.Append(
      {.kind = OpKind::kMarker, .flags = side, .signature = InternString(name)});
}

uint32_t ProgramBuilder::InternString(const std::string& text) {
  const auto [found, inserted] =
      string_ids_.try_emplace(text, static_cast<uint32_t>(fragment_.strings.size()));
  if (inserted) {
    fragment_.strings.push_back(text);
  }
  return found->second;
}

}  // namespace prism::slicer
