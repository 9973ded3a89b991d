#include "replayer/memory/snapshot.h"

#include <array>
#include <string_view>

#include "replayer/memory/pickle.h"

namespace prism::replayer {
namespace {

// By AllocatorAction.
constexpr std::array<std::string_view, 9> kActionNames = {
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "oom",
    "snapshot"};

// By BlockState.
constexpr std::array<std::string_view, 3> kStateNames = {"inactive", "active_allocated",
                                                         "active_pending_free"};

void WriteInt(const char* key, int64_t value, PickleWriter* out) {
  out->Key(key);
  out->Int(value);
}

void WriteString(const char* key, std::string_view value, PickleWriter* out) {
  out->Key(key);
  out->String(std::string(value));
}

void WriteFrames(const std::string& frame, PickleWriter* out) {
  out->Key("frames");
  out->BeginList();
  if (!frame.empty()) {
    out->BeginDict();
    WriteString("filename", "", out);
    WriteInt("line", 0, out);
    WriteString("name", frame, out);
    out->EndDict();
  }
  out->EndList();
}

void WriteSegment(const SegmentState& segment, PickleWriter* out) {
  int64_t allocated = 0;
  int64_t active = 0;
  int64_t requested = 0;
  for (const BlockInfo& block : segment.blocks) {
    allocated += block.state == BlockState::kAllocated ? block.bytes : 0;
    active += block.state != BlockState::kFree ? block.bytes : 0;
    requested += block.state != BlockState::kFree ? block.requested_bytes : 0;
  }
  out->BeginDict();
  WriteInt("device", 0, out);
  WriteInt("address", static_cast<int64_t>(segment.address), out);
  WriteInt("total_size", segment.bytes, out);
  WriteInt("allocated_size", allocated, out);
  WriteInt("active_size", active, out);
  WriteInt("requested_size", requested, out);
  WriteInt("stream", segment.stream, out);
  WriteString("segment_type", segment.pool == PoolKind::kSmall ? "small" : "large", out);
  out->Key("segment_pool_id");
  out->Pair(0, 0);
  out->Key("is_expandable");
  out->Bool(segment.is_expandable);
  WriteFrames("", out);
  out->Key("blocks");
  out->BeginList();
  for (const BlockInfo& block : segment.blocks) {
    out->BeginDict();
    WriteInt("address", static_cast<int64_t>(block.address), out);
    WriteInt("size", block.bytes, out);
    WriteInt("requested_size", block.requested_bytes, out);
    WriteString("state", kStateNames[static_cast<size_t>(block.state)], out);
    WriteFrames("", out);
    out->EndDict();
  }
  out->EndList();
  out->EndDict();
}

void WriteEvent(const SnapshotEvent& entry, PickleWriter* out) {
  const AllocatorEvent& event = entry.event;
  const bool is_oom = event.action == AllocatorAction::kOutOfMemory;
  out->BeginDict();
  WriteString("action", kActionNames[static_cast<size_t>(event.action)], out);
  WriteInt(is_oom ? "device_free" : "addr", static_cast<int64_t>(event.address), out);
  WriteInt("size", event.bytes, out);
  WriteInt("stream", event.stream, out);
  WriteInt("time_us", entry.time_us, out);
  WriteFrames(entry.frame, out);
  out->EndDict();
}

void WriteSettings(const MemorySnapshot& snapshot, PickleWriter* out) {
  out->Key("allocator_settings");
  out->BeginDict();
  WriteString("PYTORCH_CUDA_ALLOC_CONF",
              snapshot.expandable_segments ? "expandable_segments:True" : "", out);
  WriteInt("max_split_size", -1, out);
  out->Key("expandable_segments");
  out->Bool(snapshot.expandable_segments);
  out->EndDict();
}

}  // namespace

std::string EncodeSnapshot(const MemorySnapshot& snapshot) {
  PickleWriter out;
  out.BeginDict();
  out.Key("segments");
  out.BeginList();
  for (const SegmentState& segment : snapshot.segments) {
    WriteSegment(segment, &out);
  }
  out.EndList();
  out.Key("device_traces");
  out.BeginList();
  out.BeginList();
  for (const SnapshotEvent& event : snapshot.events) {
    WriteEvent(event, &out);
  }
  out.EndList();
  out.EndList();
  WriteSettings(snapshot, &out);
  out.EndDict();
  return out.Finish();
}

}  // namespace prism::replayer
