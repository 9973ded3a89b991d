// Writes the few messages of Perfetto's trace format that reports need, in protobuf wire format.
// Field numbers are those of perfetto/protos/perfetto/trace (trace_packet.proto, track_event.proto,
// track_descriptor.proto, process_descriptor.proto, thread_descriptor.proto, interned_data.proto).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/time.h"

namespace prism::replayer {

// One protobuf message under construction.
class WireMessage {
 public:
  void Varint(uint32_t field, uint64_t value);
  void Fixed64(uint32_t field, uint64_t value);
  void Bytes(uint32_t field, std::string_view value);
  void Message(uint32_t field, const WireMessage& message) { Bytes(field, message.bytes()); }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void PutVarint(uint64_t value);
  void PutTag(uint32_t field, uint32_t wire_type);

  std::string bytes_;
};

// A track of slices. Ids are chosen by the caller, distinct, not 0.
struct TrackId {
  uint64_t value = 0;
};

// Builds a trace. Slices of one track must nest; at equal times the order of the calls decides.
class TracePackets {
 public:
  TracePackets();

  void AddProcess(TrackId track, int32_t pid, const std::string& name);
  void AddThread(TrackId track, int32_t pid, int32_t tid, const std::string& name);

  // Begins a slice; `flows` are the arrows that touch it, one id per arrow.
  void Begin(TrackId track, TimeNs time, std::string_view name, std::vector<uint64_t> flows = {});
  // Ends the innermost open slice of the track.
  void End(TrackId track, TimeNs time);

  // Returns the trace, events by time; the object must not be used afterwards.
  std::string Finish();

 private:
  struct Event {
    TimeNs time = 0;
    uint64_t order = 0;  // among events of one time
    uint64_t track = 0;
    uint64_t name = 0;  // interned id; 0 ends a slice
    std::vector<uint64_t> flows;
  };

  void AddPacket(WireMessage packet, uint32_t sequence_flags);
  void WriteEvent(const Event& event);
  uint64_t Intern(std::string_view name);

  std::string trace_;
  std::vector<Event> events_;
  std::map<std::string, uint64_t, std::less<>> names_;
};

}  // namespace prism::replayer
