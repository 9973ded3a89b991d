#include "replayer/memory/snapshot.h"

#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "replayer/memory/pickle.h"

namespace prism::replayer {
namespace {

using Kind = PickleValue::Kind;

// By AllocatorAction.
constexpr std::array<std::string_view, 9> kActionNames = {
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "oom",
    "snapshot"};

// By BlockState.
constexpr std::array<std::string_view, 3> kStateNames = {"inactive", "active_allocated",
                                                         "active_pending_free"};

template <size_t count>
std::optional<size_t> IndexOf(const std::array<std::string_view, count>& names,
                              const std::string& name) {
  for (size_t i = 0; i < count; ++i) {
    if (names[i] == name) {
      return i;
    }
  }
  return std::nullopt;
}

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

// Reads fields of dictionaries; the first thing that does not fit is remembered.
class FieldReader {
 public:
  // A pickle can refer to one list many times; a snapshot does not, so no more elements are taken
  // than it has bytes.
  FieldReader(const PickleTree& tree, size_t bytes) : tree_(tree), elements_left_(bytes) {}

  [[nodiscard]] bool failed() const { return failed_; }

  int64_t Int(const PickleValue& dict, const char* key, std::optional<int64_t> otherwise = {}) {
    const PickleValue* const value = tree_.Find(dict, key);
    if (value != nullptr && value->kind == Kind::kInt) {
      return value->number;
    }
    failed_ = failed_ || value != nullptr || !otherwise;
    return otherwise.value_or(0);
  }

  std::string Text(const PickleValue& dict, const char* key) {
    const PickleValue* const value = tree_.Find(dict, key);
    failed_ = failed_ || value == nullptr || value->kind != Kind::kString;
    return failed_ ? std::string() : value->text;
  }

  bool Flag(const PickleValue& dict, const char* key) {
    const PickleValue* const value = tree_.Find(dict, key);
    return value != nullptr && value->kind == Kind::kBool && value->number != 0;
  }

  // Elements of a list of dictionaries.
  std::vector<const PickleValue*> Dicts(const PickleValue* list) {
    std::vector<const PickleValue*> dicts;
    if (list == nullptr || list->kind != Kind::kSequence) {
      failed_ = true;
      return dicts;
    }
    if (list->elements.size() > elements_left_) {
      failed_ = true;
      return dicts;
    }
    elements_left_ -= list->elements.size();
    for (const uint32_t element : list->elements) {
      dicts.push_back(&tree_.at(element));
      failed_ = failed_ || dicts.back()->kind != Kind::kDict;
    }
    return dicts;
  }

  // The name of the innermost frame; "" where none was recorded.
  std::string Frame(const PickleValue& dict) {
    const PickleValue* const frames = tree_.Find(dict, "frames");
    if (frames == nullptr || frames->kind != Kind::kSequence || frames->elements.empty()) {
      return {};
    }
    return Text(tree_.at(frames->elements.front()), "name");
  }

  template <size_t count>
  size_t Choice(const PickleValue& dict,
                const char* key,
                const std::array<std::string_view, count>& names) {
    const std::optional<size_t> index = IndexOf(names, Text(dict, key));
    failed_ = failed_ || !index;
    return index.value_or(0);
  }

  [[nodiscard]] const PickleTree& tree() const { return tree_; }

 private:
  const PickleTree& tree_;
  size_t elements_left_;
  bool failed_ = false;
};

SegmentState ReadSegment(const PickleValue& dict, FieldReader* fields) {
  constexpr std::array<std::string_view, 2> kPools = {"small", "large"};
  SegmentState segment;
  segment.address = static_cast<uint64_t>(fields->Int(dict, "address"));
  segment.bytes = fields->Int(dict, "total_size");
  segment.stream = fields->Int(dict, "stream");
  segment.pool = static_cast<PoolKind>(fields->Choice(dict, "segment_type", kPools));
  segment.is_expandable = fields->Flag(dict, "is_expandable");
  uint64_t address = segment.address;
  for (const PickleValue* const entry : fields->Dicts(fields->tree().Find(dict, "blocks"))) {
    BlockInfo block;
    block.bytes = fields->Int(*entry, "size");
    block.requested_bytes = fields->Int(*entry, "requested_size", block.bytes);
    block.state = static_cast<BlockState>(fields->Choice(*entry, "state", kStateNames));
    block.address = address;  // blocks lie in order; old files do not say where
    address += static_cast<uint64_t>(block.bytes);
    segment.blocks.push_back(block);
  }
  return segment;
}

SnapshotEvent ReadEvent(const PickleValue& dict, FieldReader* fields) {
  SnapshotEvent entry;
  entry.event.action = static_cast<AllocatorAction>(fields->Choice(dict, "action", kActionNames));
  const bool is_oom = entry.event.action == AllocatorAction::kOutOfMemory;
  entry.event.address = static_cast<uint64_t>(fields->Int(dict, is_oom ? "device_free" : "addr"));
  entry.event.bytes = fields->Int(dict, "size");
  entry.event.stream = fields->Int(dict, "stream");
  entry.time_us = fields->Int(dict, "time_us", 0);
  entry.frame = fields->Frame(dict);
  return entry;
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

Result<MemorySnapshot> DecodeSnapshot(std::string_view bytes, const std::string& name) {
  PRISM_ASSIGN_OR_RETURN(const PickleTree tree, ReadPickle(bytes, name));
  FieldReader fields(tree, bytes.size());
  MemorySnapshot snapshot;
  for (const PickleValue* const segment : fields.Dicts(tree.Find(tree.root(), "segments"))) {
    snapshot.segments.push_back(ReadSegment(*segment, &fields));
  }
  const PickleValue* const traces = tree.Find(tree.root(), "device_traces");
  if (traces != nullptr && traces->kind == Kind::kSequence && !traces->elements.empty()) {
    for (const PickleValue* const event : fields.Dicts(&tree.at(traces->elements.front()))) {
      snapshot.events.push_back(ReadEvent(*event, &fields));
    }
  }
  if (const PickleValue* const settings = tree.Find(tree.root(), "allocator_settings")) {
    snapshot.expandable_segments = fields.Flag(*settings, "expandable_segments");
  }
  if (fields.failed()) {
    return BadFile(fmt::format(
        "{} is a pickle but no memory snapshot: a field is missing or has another type", name));
  }
  return snapshot;
}

}  // namespace prism::replayer
