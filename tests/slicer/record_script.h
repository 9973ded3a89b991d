// Hand-made record streams: what a sandbox process would send, without one.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/program/op.h"
#include "shim/channel/messages.h"

namespace prism::slicer {

struct ScriptedRecord {
  channel::Record record = {};
  std::vector<std::byte> payload;
};

// Builds a stream record by record; names are defined at first use, as the shim does.
class RecordScript {
 public:
  [[nodiscard]] const std::vector<ScriptedRecord>& records() const { return records_; }

  // Sets the rank in the communicators that follow.
  void AsRank(int32_t rank) { rank_ = rank; }

  // Communicators that follow are created for that process group of the framework.
  void OfGroup(uint32_t group) { group_ = group; }

  // What follows is issued, or allocated, in a backward pass of autograd.
  void InBackward(bool in_backward) { in_backward_ = in_backward; }

  // What follows is launched by one call of the host with what was before.
  void InLaunch(bool in_launch) { in_launch_ = in_launch; }

  // What follows is issued by that thread.
  void OnThread(uint16_t thread) { thread_ = thread; }

  uint32_t Define(channel::Table table, const std::string& payload) {
    const auto [entry, is_new] = ids_[table].emplace(payload, ids_[table].size() + 1);
    if (is_new) {
      channel::Record record = {};
      record.kind = channel::RecordKind::kDefine;
      record.define.table = table;
      record.define.id = entry->second;
      record.define.payload_bytes = static_cast<uint32_t>(payload.size());
      Add(record, payload.data(), payload.size());
    }
    return entry->second;
  }

  uint32_t Context(const std::string& op, const std::vector<int64_t>& dims) {
    channel::ContextHeader header = {.name_bytes = static_cast<uint16_t>(op.size()),
                                     .tensor_count = 1};
    std::string payload(reinterpret_cast<const char*>(&header), sizeof(header));
    payload += op;
    payload += static_cast<char>(DataType::kBfloat16);
    payload += static_cast<char>(dims.size());
    payload.append(reinterpret_cast<const char*>(dims.data()), dims.size() * sizeof(int64_t));
    return Define(channel::Table::kContext, payload);
  }

  void Marker(const std::string& name, bool begin, bool in_backward = false) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kMarker;
    record.marker.name = Define(channel::Table::kMarkerName, name);
    record.marker.begin = begin ? 1 : 0;
    record.marker.in_backward = in_backward ? 1 : 0;
    Add(record);
  }

  // Of a program that is checked.
  void Note(const std::string& text) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kMarker;
    record.marker.name = Define(channel::Table::kMarkerName, text);
    record.marker.is_note = 1;
    Add(record);
  }

  void Kernel(const std::string& name, uint16_t stream = 0, uint32_t context = 0) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kKernel;
    record.stream = stream;
    record.context = context;
    record.kernel.name = Define(channel::Table::kKernelName, name);
    record.kernel.grid[0] = 8;
    record.kernel.block[0] = 128;
    Add(record);
  }

  void Matmul(int32_t size, uint16_t stream = 0) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kMatmul;
    record.stream = stream;
    record.matmul.name = Define(channel::Table::kKernelName, "cublasLtMatmul");
    record.matmul.m = record.matmul.n = record.matmul.k = size;
    record.matmul.batch = 1;
    Add(record);
  }

  void Event(channel::RecordKind kind, uint32_t event, uint16_t stream) {
    channel::Record record = {};
    record.kind = kind;
    record.stream = stream;
    record.event.event = event;
    Add(record);
  }

  void CommInit(
      uint32_t comm, const std::string& name, int32_t size, int32_t start, int32_t stride) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kCommInit;
    record.comm_init.comm = comm;
    record.comm_init.size = size;
    record.comm_init.rank = rank_;
    record.comm_init.group_name = Define(channel::Table::kGroupName, name);
    record.comm_init.global_start = start;
    record.comm_init.global_stride = stride;
    record.comm_init.identity = group_;
    record.comm_init.group_number = group_;
    Add(record);
  }

  void CommName(uint32_t comm, const std::string& name) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kCommName;
    record.comm_name.comm = comm;
    record.comm_name.group_name = Define(channel::Table::kGroupName, name);
    Add(record);
  }

  void AllReduce(uint32_t comm,
                 int64_t bytes,
                 uint16_t stream,
                 graph::ReduceOp reduce = graph::ReduceOp::kSum) {
    Collective(comm, {graph::CollectiveKind::kAllReduce, kType, reduce, -1, bytes}, stream);
  }

  void Broadcast(uint32_t comm, int32_t root, int64_t bytes, uint16_t stream) {
    Collective(comm,
               {graph::CollectiveKind::kBroadcast, kType, graph::ReduceOp::kNone, root, bytes},
               stream);
  }

  void Transfer(uint32_t comm, int32_t peer, bool is_send, int64_t bytes, uint16_t stream) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kPeerTransfer;
    record.stream = stream;
    record.peer.comm = comm;
    record.peer.peer = peer;
    record.peer.is_send = is_send ? 1 : 0;
    record.peer.bytes = bytes;
    Add(record);
  }

  void GroupEnd() {
    channel::Record record = {};
    record.kind = channel::RecordKind::kGroupEnd;
    Add(record);
  }

  void Block(bool is_alloc, uint64_t address, int64_t bytes, uint32_t context = 0) {
    channel::Record record = {};
    record.kind = is_alloc ? channel::RecordKind::kBlockAlloc : channel::RecordKind::kBlockFree;
    record.context = context;
    record.segment.address = address;
    record.segment.bytes = bytes;
    Add(record);
  }

  void Outside(const std::string& what, uint32_t comm, int64_t bytes) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kOutsideAlloc;
    record.outside.name = Define(channel::Table::kOutsideName, what);
    record.outside.comm = comm;
    record.outside.bytes = bytes;
    Add(record);
  }

  void Segment(int64_t bytes, uint64_t address = 0x10000, bool is_alloc = true) {
    channel::Record record = {};
    record.kind = is_alloc ? channel::RecordKind::kSegmentAlloc : channel::RecordKind::kSegmentFree;
    record.segment.address = address;
    record.segment.bytes = bytes;
    Add(record);
  }

  void Add(const channel::Record& record, const void* payload = nullptr, size_t bytes = 0) {
    ScriptedRecord scripted = {.record = record, .payload = std::vector<std::byte>(bytes)};
    scripted.record.thread = thread_;
    scripted.record.flags |= in_backward_ ? channel::kInBackward : 0;
    scripted.record.flags |= in_launch_ ? channel::kLaunchedWithPrevious : 0;
    if (bytes > 0) {
      std::memcpy(scripted.payload.data(), payload, bytes);
    }
    records_.push_back(std::move(scripted));
  }

 private:
  static constexpr DataType kType = DataType::kFloat32;

  void Collective(uint32_t comm, const graph::CollectiveShape& shape, uint16_t stream) {
    channel::Record record = {};
    record.kind = channel::RecordKind::kCollective;
    record.stream = stream;
    record.collective.comm = comm;
    record.collective.collective = static_cast<uint8_t>(shape.kind);
    record.collective.dtype = static_cast<uint8_t>(shape.dtype);
    record.collective.reduce = static_cast<uint8_t>(shape.reduce);
    record.collective.root = shape.root;
    record.collective.bytes = shape.bytes;
    Add(record);
  }

  int32_t rank_ = 0;
  uint32_t group_ = 0;
  bool in_backward_ = false;
  bool in_launch_ = false;
  uint16_t thread_ = 0;
  std::vector<ScriptedRecord> records_;
  std::map<channel::Table, std::map<std::string, uint32_t>> ids_;
};

}  // namespace prism::slicer
