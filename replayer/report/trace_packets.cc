#include "replayer/report/trace_packets.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace prism::replayer {
namespace {

// Trace
constexpr uint32_t kTracePacket = 1;
// TracePacket
constexpr uint32_t kTimestamp = 8;
constexpr uint32_t kSequenceId = 10;
constexpr uint32_t kTrackEvent = 11;
constexpr uint32_t kInternedData = 12;
constexpr uint32_t kSequenceFlags = 13;
constexpr uint32_t kTrackDescriptor = 60;
// TrackEvent
constexpr uint32_t kType = 9;
constexpr uint32_t kNameIid = 10;
constexpr uint32_t kTrackUuid = 11;
constexpr uint32_t kFlowIds = 47;
constexpr uint64_t kSliceBegin = 1;
constexpr uint64_t kSliceEnd = 2;
// TrackDescriptor
constexpr uint32_t kUuid = 1;
constexpr uint32_t kProcess = 3;
constexpr uint32_t kThread = 4;
// ProcessDescriptor and ThreadDescriptor
constexpr uint32_t kPid = 1;
constexpr uint32_t kTid = 2;
constexpr uint32_t kThreadName = 5;
constexpr uint32_t kProcessName = 6;
// InternedData and EventName
constexpr uint32_t kEventNames = 2;
constexpr uint32_t kIid = 1;
constexpr uint32_t kName = 2;

// SEQ_INCREMENTAL_STATE_CLEARED and SEQ_NEEDS_INCREMENTAL_STATE.
constexpr uint32_t kStateCleared = 1;
constexpr uint32_t kNeedsState = 2;

constexpr uint32_t kVarintType = 0;
constexpr uint32_t kFixed64Type = 1;
constexpr uint32_t kBytesType = 2;

}  // namespace

void WireMessage::PutVarint(uint64_t value) {
  while (value >= 0x80U) {
    bytes_.push_back(static_cast<char>((value & 0x7FU) | 0x80U));
    value >>= 7U;
  }
  bytes_.push_back(static_cast<char>(value));
}

void WireMessage::PutTag(uint32_t field, uint32_t wire_type) {
  PutVarint((uint64_t{field} << 3U) | wire_type);
}

void WireMessage::Varint(uint32_t field, uint64_t value) {
  PutTag(field, kVarintType);
  PutVarint(value);
}

void WireMessage::Fixed64(uint32_t field, uint64_t value) {
  PutTag(field, kFixed64Type);
  for (unsigned byte = 0; byte < 8; ++byte) {
    bytes_.push_back(static_cast<char>((value >> (8 * byte)) & 0xFFU));
  }
}

void WireMessage::Bytes(uint32_t field, std::string_view value) {
  PutTag(field, kBytesType);
  PutVarint(value.size());
  bytes_.append(value);
}

// An empty descriptor opens the sequence, as readers require before interned names.
TracePackets::TracePackets() {
  AddPacket(WireMessage(), kStateCleared);
}

void TracePackets::AddPacket(WireMessage packet, uint32_t sequence_flags) {
  packet.Varint(kSequenceId, 1);
  packet.Varint(kSequenceFlags, sequence_flags);
  WireMessage trace;
  trace.Message(kTracePacket, packet);
  trace_ += trace.bytes();
}

void TracePackets::AddProcess(TrackId track, int32_t pid, const std::string& name) {
  WireMessage process;
  process.Varint(kPid, static_cast<uint64_t>(pid));
  process.Bytes(kProcessName, name);
  WireMessage descriptor;
  descriptor.Varint(kUuid, track.value);
  descriptor.Message(kProcess, process);
  WireMessage packet;
  packet.Message(kTrackDescriptor, descriptor);
  AddPacket(std::move(packet), kNeedsState);
}

void TracePackets::AddThread(TrackId track, int32_t pid, int32_t tid, const std::string& name) {
  WireMessage thread;
  thread.Varint(kPid, static_cast<uint64_t>(pid));
  thread.Varint(kTid, static_cast<uint64_t>(tid));
  thread.Bytes(kThreadName, name);
  WireMessage descriptor;
  descriptor.Varint(kUuid, track.value);
  descriptor.Message(kThread, thread);
  WireMessage packet;
  packet.Message(kTrackDescriptor, descriptor);
  AddPacket(std::move(packet), kNeedsState);
}

uint64_t TracePackets::Intern(std::string_view name) {
  auto found = names_.find(name);
  if (found != names_.end()) {
    return found->second;
  }
  uint64_t id = names_.size() + 1;
  names_.emplace(name, id);
  WireMessage event_name;
  event_name.Varint(kIid, id);
  event_name.Bytes(kName, name);
  WireMessage interned;
  interned.Message(kEventNames, event_name);
  WireMessage packet;
  packet.Message(kInternedData, interned);
  AddPacket(std::move(packet), kNeedsState);
  return id;
}

void TracePackets::Begin(TrackId track,
                         TimeNs time,
                         std::string_view name,
                         std::vector<uint64_t> flows) {
  events_.push_back({time, events_.size(), track.value, Intern(name), std::move(flows)});
}

void TracePackets::End(TrackId track, TimeNs time) {
  events_.push_back({time, events_.size(), track.value, 0, {}});
}

void TracePackets::WriteEvent(const Event& event) {
  WireMessage track_event;
  track_event.Varint(kType, event.name == 0 ? kSliceEnd : kSliceBegin);
  track_event.Varint(kTrackUuid, event.track);
  if (event.name != 0) {
    track_event.Varint(kNameIid, event.name);
  }
  for (uint64_t flow : event.flows) {
    track_event.Fixed64(kFlowIds, flow);
  }
  WireMessage packet;
  packet.Varint(kTimestamp, static_cast<uint64_t>(event.time));
  packet.Message(kTrackEvent, track_event);
  AddPacket(std::move(packet), kNeedsState);
}

std::string TracePackets::Finish() {
  std::ranges::sort(events_, [](const Event& a, const Event& b) {
    return std::tie(a.time, a.order) < std::tie(b.time, b.order);
  });
  for (const Event& event : events_) {
    WriteEvent(event);
  }
  events_.clear();
  return std::move(trace_);
}

}  // namespace prism::replayer
