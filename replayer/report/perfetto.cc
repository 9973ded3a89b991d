#include "replayer/report/perfetto.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/time.h"

namespace prism::replayer {
namespace {

using graph::OpKind;

// Writes the few messages of Perfetto's trace format that reports need, in protobuf wire format.
// Field numbers are those of perfetto/protos/perfetto/trace (trace_packet.proto, track_event.proto,
// track_descriptor.proto, process_descriptor.proto, thread_descriptor.proto, interned_data.proto).

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

// One protobuf message under construction.
class WireMessage {
 public:
  void Varint(uint32_t field, uint64_t value) {
    PutTag(field, kVarintType);
    PutVarint(value);
  }

  void Fixed64(uint32_t field, uint64_t value) {
    PutTag(field, kFixed64Type);
    for (unsigned byte = 0; byte < 8; ++byte) {
      bytes_.push_back(static_cast<char>((value >> (8 * byte)) & 0xFFU));
    }
  }

  void Bytes(uint32_t field, std::string_view value) {
    PutTag(field, kBytesType);
    PutVarint(value.size());
    bytes_.append(value);
  }

  void Message(uint32_t field, const WireMessage& message) { Bytes(field, message.bytes()); }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void PutVarint(uint64_t value) {
    while (value >= 0x80U) {
      bytes_.push_back(static_cast<char>((value & 0x7FU) | 0x80U));
      value >>= 7U;
    }
    bytes_.push_back(static_cast<char>(value));
  }

  void PutTag(uint32_t field, uint32_t wire_type) {
    PutVarint((uint64_t{field} << 3U) | wire_type);
  }

  std::string bytes_;
};

// A track of slices. Ids are chosen by the caller, distinct, not 0.
struct TrackId {
  uint64_t value = 0;
};

// Builds a trace. Slices of one track must nest; at equal times the order of the calls decides.
class TracePackets {
 public:
  // An empty descriptor opens the sequence, as readers require before interned names.
  TracePackets() { AddPacket(WireMessage(), kStateCleared); }

  void AddProcess(TrackId track, int32_t pid, const std::string& name) {
    WireMessage process;
    process.Varint(kPid, static_cast<uint64_t>(pid));
    process.Bytes(kProcessName, name);
    AddTrack(track, kProcess, process);
  }

  void AddThread(TrackId track, int32_t pid, int32_t tid, const std::string& name) {
    WireMessage thread;
    thread.Varint(kPid, static_cast<uint64_t>(pid));
    thread.Varint(kTid, static_cast<uint64_t>(tid));
    thread.Bytes(kThreadName, name);
    AddTrack(track, kThread, thread);
  }

  // Begins a slice; `flows` are the arrows that touch it, one id per arrow.
  void Begin(TrackId track, TimeNs time, std::string_view name, std::vector<uint64_t> flows = {}) {
    events_.push_back({time, events_.size(), track.value, Intern(name), std::move(flows)});
  }

  // Ends the innermost open slice of the track.
  void End(TrackId track, TimeNs time) {
    events_.push_back({time, events_.size(), track.value, 0, {}});
  }

  // Returns the trace, events by time; the object must not be used afterwards.
  std::string Finish() {
    std::ranges::sort(events_, [](const Event& a, const Event& b) {
      return std::tie(a.time, a.order) < std::tie(b.time, b.order);
    });
    for (const Event& event : events_) {
      WriteEvent(event);
    }
    events_.clear();
    return std::move(trace_);
  }

 private:
  struct Event {
    TimeNs time = 0;
    uint64_t order = 0;  // among events of one time
    uint64_t track = 0;
    uint64_t name = 0;  // interned id; 0 ends a slice
    std::vector<uint64_t> flows;
  };

  void AddTrack(TrackId track, uint32_t kind, const WireMessage& message) {
    WireMessage descriptor;
    descriptor.Varint(kUuid, track.value);
    descriptor.Message(kind, message);
    AddMessage(kTrackDescriptor, descriptor);
  }

  void AddMessage(uint32_t field, const WireMessage& message) {
    WireMessage packet;
    packet.Message(field, message);
    AddPacket(std::move(packet), kNeedsState);
  }

  void AddPacket(WireMessage packet, uint32_t sequence_flags) {
    packet.Varint(kSequenceId, 1);
    packet.Varint(kSequenceFlags, sequence_flags);
    WireMessage trace;
    trace.Message(kTracePacket, packet);
    trace_ += trace.bytes();
  }

  void WriteEvent(const Event& event) {
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

  uint64_t Intern(std::string_view name) {
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
    AddMessage(kInternedData, interned);
    return id;
  }

  std::string trace_;
  std::vector<Event> events_;
  std::map<std::string, uint64_t, std::less<>> names_;
};

// What an arrow represents: a collective (communicator, kAll, kAll, number) or one message
// (communicator, source, destination, number).
using FlowKey = std::tuple<uint32_t, uint32_t, uint32_t, int64_t>;
constexpr uint32_t kAll = 0xFFFFFFFFU;

// One rank's timeline with what is needed to name its ops.
class TracedRank {
 public:
  TracedRank(const graph::Graph& graph, const Timeline& timeline)
      : graph_(graph),
        timeline_(timeline),
        rank_(timeline.rank),
        role_(graph.role_of(timeline.rank)),
        program_(role_.program) {}

  [[nodiscard]] std::string Name() const {
    return role_.name.empty() ? fmt::format("rank {}", rank_.value())
                              : fmt::format("rank {}: {}", rank_.value(), role_.name);
  }

  // The arrows of every collective and group, by position.
  [[nodiscard]] std::map<int64_t, std::vector<FlowKey>> Flows() const {
    std::map<int64_t, std::vector<FlowKey>> flows;
    std::map<uint32_t, int64_t> calls;    // by communicator
    std::map<FlowKey, int64_t> messages;  // by communicator, source, destination (number 0)
    for (int64_t position = 0; position < Size(); ++position) {
      uint32_t op = OpAt(position);
      if (program_.kind[op] == OpKind::kCollective) {
        uint32_t comm = Comm(program_.comm_slot[op]);
        flows[position].emplace_back(comm, kAll, kAll, calls[comm]++);
      } else if (program_.kind[op] == OpKind::kPeerGroup) {
        for (const graph::PeerTransfer& transfer : Group(op).transfers) {
          uint32_t peer = graph_.ranks.peers(rank_)[transfer.peer_slot];
          uint32_t source = transfer.is_send ? rank_.value() : peer;
          uint32_t destination = transfer.is_send ? peer : rank_.value();
          FlowKey key = {Comm(transfer.comm_slot), source, destination, 0};
          std::get<3>(key) = messages[key]++;
          flows[position].push_back(key);
        }
      }
    }
    return flows;
  }

  // Uses track ids from `first` on, and arrow ids from `flow_ids`.
  void Write(uint64_t first,
             const std::map<FlowKey, uint64_t>& flow_ids,
             TracePackets* packets) const {
    auto pid = static_cast<int32_t>(rank_.value()) + 1;  // 0 is the idle process to readers
    packets->AddProcess({first}, pid, Name());
    int32_t threads = program_.stream_count + 1;
    for (int32_t thread = 0; thread < threads; ++thread) {
      packets->AddThread({first + 1 + static_cast<uint64_t>(thread)}, pid,
                         pid * kThreadsPerRank + thread,
                         thread == 0 ? "host" : fmt::format("stream {}", thread - 1));
    }
    std::map<int64_t, std::vector<FlowKey>> flows = Flows();
    for (int64_t position = 0; position < Size(); ++position) {
      std::vector<uint64_t> ids;
      auto found = flows.find(position);
      if (found != flows.end()) {
        for (const FlowKey& key : found->second) {
          auto id = flow_ids.find(key);
          if (id != flow_ids.end()) {
            ids.push_back(id->second);
          }
        }
      }
      WriteOp(position, first, std::move(ids), packets);
    }
  }

  // How many tracks Write uses.
  [[nodiscard]] uint64_t TrackCount() const { return program_.stream_count + uint64_t{2}; }

 private:
  static constexpr int32_t kThreadsPerRank = 1000;  // thread ids are distinct over ranks

  [[nodiscard]] int64_t Size() const { return static_cast<int64_t>(timeline_.whole); }
  [[nodiscard]] uint32_t OpAt(int64_t position) const {
    return static_cast<uint32_t>(position % program_.size());
  }
  [[nodiscard]] uint32_t Comm(uint16_t slot) const { return graph_.ranks.comms(rank_)[slot]; }
  [[nodiscard]] const graph::PeerGroup& Group(uint32_t op) const {
    return program_.peer_groups[program_.signature[op]];
  }

  void WriteOp(int64_t position,
               uint64_t first,
               std::vector<uint64_t> flows,
               TracePackets* packets) const {
    uint32_t op = OpAt(position);
    auto index = static_cast<size_t>(position);
    TimeNs start = timeline_.start[index];
    TimeNs end = timeline_.end[index];
    if (end < 0) {
      return;  // never came to it
    }
    TrackId host = {first + 1};
    TrackId stream = {first + 2 + program_.stream[op]};
    switch (program_.kind[op]) {
      case OpKind::kKernel:
      case OpKind::kMemcpy:
      case OpKind::kMemset:
        packets->Begin(stream, start, NameOf(op));
        packets->End(stream, end);
        break;
      case OpKind::kCollective:
      case OpKind::kPeerGroup:
        packets->Begin(stream, start, NameOf(op), std::move(flows));
        packets->Begin(stream, timeline_.transfer_start[index], "transfer");
        packets->End(stream, end);
        packets->End(stream, end);
        break;
      case OpKind::kEventWait:
        if (start < end) {
          packets->Begin(stream, start, NameOf(op));
          packets->End(stream, end);
        }
        break;
      case OpKind::kMarker:
        if ((program_.flags[op] & graph::kMarkerBegin) != 0) {
          packets->Begin(host, start, NameOf(op));
        } else if ((program_.flags[op] & graph::kMarkerEnd) != 0) {
          packets->End(host, end);
        }
        break;
      case OpKind::kHostGap:
      case OpKind::kEventSync:
      case OpKind::kStreamSync:
      case OpKind::kDeviceSync:
        packets->Begin(host, start, NameOf(op));
        packets->End(host, end);
        break;
      case OpKind::kEventRecord:
      case OpKind::kSegmentAlloc:
      case OpKind::kSegmentFree:
        break;
    }
  }

  [[nodiscard]] std::string NameOf(uint32_t op) const {
    switch (program_.kind[op]) {
      case OpKind::kKernel:
        return program_.signature[op] < graph_.signatures.size()
                   ? graph_.string(graph_.signatures[program_.signature[op]].name)
                   : "kernel";
      case OpKind::kMemcpy:
        return "memcpy";
      case OpKind::kMemset:
        return "memset";
      case OpKind::kCollective: {
        const graph::CollectiveShape& shape = program_.collectives[program_.signature[op]];
        uint32_t comm = Comm(program_.comm_slot[op]);
        return fmt::format("{} {}", graph::CollectiveKindName(shape.kind),
                           graph_.string(StringId(graph_.communicators.name[comm])));
      }
      case OpKind::kPeerGroup:
        return PeerGroupName(op);
      case OpKind::kEventWait:
        return "wait for event";
      case OpKind::kMarker:
        return graph_.string(StringId(program_.signature[op]));
      case OpKind::kHostGap:
        return "host gap";
      case OpKind::kEventSync:
        return "event sync";
      case OpKind::kStreamSync:
        return "stream sync";
      default:
        return "device sync";
    }
  }

  [[nodiscard]] std::string PeerGroupName(uint32_t op) const {
    bool sends = false;
    bool receives = false;
    for (const graph::PeerTransfer& transfer : Group(op).transfers) {
      (transfer.is_send ? sends : receives) = true;
    }
    return sends && receives ? "send and recv" : sends ? "send" : "recv";
  }

  const graph::Graph& graph_;
  const Timeline& timeline_;
  Rank rank_;
  const graph::Role& role_;
  const graph::Program& program_;
};

}  // namespace

std::string EncodePerfetto(const graph::Graph& graph, const std::vector<Timeline>& timelines) {
  std::vector<TracedRank> ranks;
  std::map<FlowKey, int64_t> uses;
  for (const Timeline& timeline : timelines) {
    ranks.emplace_back(graph, timeline);
    for (const auto& [position, keys] : ranks.back().Flows()) {
      for (const FlowKey& key : keys) {
        ++uses[key];
      }
    }
  }
  std::map<FlowKey, uint64_t> flow_ids;  // of arrows with both ends traced
  for (const auto& [key, count] : uses) {
    if (count > 1) {
      flow_ids.emplace(key, flow_ids.size() + 1);
    }
  }
  TracePackets packets;
  uint64_t next_track = 1;
  for (const TracedRank& rank : ranks) {
    rank.Write(next_track, flow_ids, &packets);
    next_track += rank.TrackCount();
  }
  return packets.Finish();
}

Status WritePerfetto(const graph::Graph& graph,
                     const std::vector<Timeline>& timelines,
                     const std::string& path) {
  return WriteFileAtomically(path, EncodePerfetto(graph, timelines));
}

}  // namespace prism::replayer
