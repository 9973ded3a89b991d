#include "slicer/record/op_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "graph/base/check.h"
#include "graph/base/content_hash.h"
#include "graph/base/intern.h"

namespace prism::slicer {

namespace {

using channel::Record;
using channel::RecordKind;
using channel::SyncKind;
using channel::Table;
using graph::OpKind;

// Communicators, slots and streams of one rank stay far below this; more means a damaged stream.
constexpr size_t kMaxSlots = graph::kNoSlot;

Status Damaged(const std::string& what) {
  return RunFailed("the shim's stream is damaged: " + what);
}

bool IsDataType(uint8_t value) {
  return value <= static_cast<uint8_t>(DataType::kFloat64);
}

// Fragments list members in ascending order, and a root counts in that order.
int32_t RootAmongAscending(const RecordedCommunicator& comm, int32_t root) {
  if (root < 0 || !comm.members_known || std::ranges::is_sorted(comm.members)) {
    return root;
  }
  const Rank rank = comm.members[static_cast<size_t>(root)];
  return static_cast<int32_t>(
      std::ranges::count_if(comm.members, [rank](Rank member) { return member < rank; }));
}

}  // namespace

size_t OpStream::SignatureKeyHash::operator()(const SignatureKey& key) const {
  ContentHash hash;
  for (const uint32_t word : key) {
    hash.Add(word);
  }
  return hash.Digest();
}

Result<std::span<const PlacedOp>> OpStream::Push(const Record& record,
                                                 std::span<const std::byte> payload) {
  completed_.clear();
  switch (record.kind) {
    case RecordKind::kDefine:
    case RecordKind::kCommInit:
    case RecordKind::kCommName:
    case RecordKind::kCommDestroy:
      PRISM_RETURN_IF_ERROR(PushDefinition(record, payload));
      break;
    case RecordKind::kMarker:
      PRISM_RETURN_IF_ERROR(PushMarker(record));
      break;
    default:
      if (rule_.See(record) == IterationRule::Edge::kBefore) {
        PRISM_RETURN_IF_ERROR(BeginBefore());
      }
      if (iteration_ >= 0) {
        PRISM_RETURN_IF_ERROR(PushOp(record));
      }
      break;
  }
  return std::span<const PlacedOp>(completed_);
}

Status OpStream::PushDefinition(const Record& record, std::span<const std::byte> payload) {
  if (record.kind == RecordKind::kDefine) {
    return definitions_.Add(record.define, payload);
  }
  if (record.kind == RecordKind::kCommInit) {
    return PushCommInit(record.comm_init, payload);
  }
  if (record.kind == RecordKind::kCommName) {
    return PushCommName(record.comm_name);
  }
  // A destroyed communicator keeps its entry: slots of this iteration may still refer to it, and
  // ids are not reused.
  return OkStatus();
}

Status OpStream::PushOp(const Record& record) {
  launch_flags_ = (record.flags & channel::kLaunchedWithPrevious) != 0
                      ? uint8_t{graph::kLaunchedWithPrevious}
                      : uint8_t{0};
  if (record.kind == RecordKind::kMatmul && (record.flags & channel::kInBackward) == 0) {
    forward_thread_ = record.thread;
  }
  switch (record.kind) {
    case RecordKind::kKernel:
    case RecordKind::kMatmul:
      return PushKernel(record);
    case RecordKind::kMemcpy:
    case RecordKind::kMemset:
      return PushCopy(record);
    case RecordKind::kEventRecord:
    case RecordKind::kEventWait:
      return PushEvent(record);
    case RecordKind::kSync:
      return PushSync(record);
    case RecordKind::kHostGap:
      return PushHostGap(record);
    case RecordKind::kCollective:
      return PushCollective(record);
    case RecordKind::kPeerTransfer:
      pending_[record.thread].push_back({.stream = record.stream, .body = record.peer});
      return OkStatus();
    case RecordKind::kGroupEnd:
      return PushGroupEnd(record);
    case RecordKind::kSegmentAlloc:
      return AddOp({.kind = OpKind::kSegmentAlloc, .value = record.segment.bytes});
    case RecordKind::kSegmentFree:
      return AddOp({.kind = OpKind::kSegmentFree, .value = record.segment.bytes});
    default:
      return OkStatus();  // queries, blocks, statistics, counters: not ops
  }
}

void OpStream::StartIteration() {
  ++iteration_;
  inside_ = true;
  next_index_ = 0;
  previous_tables_ = std::exchange(tables_, OpTables());
  streams_.clear();
  comm_slots_.clear();
  peer_slots_.clear();
  strings_.clear();
  signatures_.clear();
}

Status OpStream::AddOp(CanonicalOp op) {
  if (next_index_ == graph::kNoDep) {
    return RunFailed("one iteration has more ops than a program can hold");
  }
  op.flags |= op.kind == OpKind::kMarker ? uint8_t{0} : launch_flags_;
  completed_.push_back({.place = {.iteration = iteration_, .index = next_index_}, .op = op});
  ++next_index_;
  return OkStatus();
}

Status OpStream::PushCommInit(const channel::CommInitBody& body,
                              std::span<const std::byte> payload) {
  if (body.size <= 0 || body.rank < 0 || body.rank >= body.size) {
    return Damaged(fmt::format("communicator of rank {} of {}", body.rank, body.size));
  }
  RecordedCommunicator comm;
  PRISM_ASSIGN_OR_RETURN(comm.name, definitions_.Name(Table::kGroupName, body.group_name));
  comm.size = body.size;
  comm.identity = body.group_number == 0 ? 0 : body.identity;
  comm.group_number = body.group_number;
  const auto size = static_cast<size_t>(body.size);
  if (body.payload_bytes > 0) {
    if (body.payload_bytes != size * sizeof(int32_t) || payload.size() < body.payload_bytes) {
      return Damaged(fmt::format("communicator of {} ranks names {} bytes of members", body.size,
                                 body.payload_bytes));
    }
    for (size_t i = 0; i < size; ++i) {
      int32_t member = 0;
      std::memcpy(&member, payload.data() + i * sizeof(int32_t), sizeof(int32_t));
      comm.members.emplace_back(static_cast<uint32_t>(member));
    }
  } else if (body.global_start >= 0 && (body.global_stride > 0 || body.size == 1)) {
    const int64_t last = body.global_start + int64_t{body.size - 1} * body.global_stride;
    if (last > INT32_MAX) {
      return Damaged(fmt::format("communicator of {} ranks reaches rank {}", body.size, last));
    }
    for (int32_t i = 0; i < body.size; ++i) {
      comm.members.emplace_back(static_cast<uint32_t>(body.global_start + i * body.global_stride));
    }
  }
  // A list in which this rank has another position belongs to some other group: the framework named
  // the group that the communicator serves, but the communicator was created for a pair of the
  // group's members.
  comm.members_known =
      !comm.members.empty() && comm.members[static_cast<size_t>(body.rank)] == self_;
  if (!comm.members_known) {
    comm.members.clear();
  }
  communicators_[body.comm] = std::move(comm);
  return OkStatus();
}

// Slots of the current iteration keep the name that they were interned with.
Status OpStream::PushCommName(const channel::CommNameBody& body) {
  const auto found = communicators_.find(body.comm);
  if (found == communicators_.end()) {
    return Damaged(fmt::format("a name for communicator {}, which was never made", body.comm));
  }
  PRISM_ASSIGN_OR_RETURN(found->second.name, definitions_.Name(Table::kGroupName, body.group_name));
  return OkStatus();
}

Status OpStream::PushKernel(const Record& record) {
  SignatureKey key = {};
  graph::KernelSignature shape;
  if (record.kind == RecordKind::kKernel) {
    const channel::KernelBody& body = record.kernel;
    key = {body.name,    record.context, body.grid[0],  body.grid[1],
           body.grid[2], body.block[0],  body.block[1], body.block[2]};
    std::copy(std::begin(body.grid), std::end(body.grid), shape.grid.begin());
    std::copy(std::begin(body.block), std::end(body.block), shape.block.begin());
  } else {
    const channel::MatmulBody& body = record.matmul;
    if (!IsDataType(body.input_dtype) || !IsDataType(body.output_dtype)) {
      return Damaged("a matrix product of an unknown data type");
    }
    shape.matmul = {.m = body.m,
                    .n = body.n,
                    .k = body.k,
                    .batch = body.batch,
                    .input = static_cast<DataType>(body.input_dtype),
                    .output = static_cast<DataType>(body.output_dtype),
                    .transpose_a = body.transpose_a != 0,
                    .transpose_b = body.transpose_b != 0};
    key = {body.name, record.context};
    key[8] = static_cast<uint32_t>(body.m);
    key[9] = static_cast<uint32_t>(body.n);
    key[10] = static_cast<uint32_t>(body.k);
    key[11] = static_cast<uint32_t>(body.batch);
    key[12] = 1U + (uint32_t{body.input_dtype} << 8U) + (uint32_t{body.output_dtype} << 16U) +
              (body.transpose_a != 0 ? 1U << 24U : 0U) + (body.transpose_b != 0 ? 1U << 25U : 0U);
  }
  PRISM_ASSIGN_OR_RETURN(const uint32_t signature, SignatureOf(key, shape));
  return AddOp(
      {.kind = OpKind::kKernel, .stream = StreamOf(record.stream), .signature = signature});
}

Result<uint32_t> OpStream::SignatureOf(const SignatureKey& key,
                                       const graph::KernelSignature& shape) {
  const auto found = signatures_.find(key);
  if (found != signatures_.end()) {
    return found->second;
  }
  graph::KernelSignature signature = shape;
  PRISM_ASSIGN_OR_RETURN(const std::string name, definitions_.Name(Table::kKernelName, key[0]));
  PRISM_ASSIGN_OR_RETURN(FrameworkContext context, definitions_.Context(key[1]));
  signature.name = StringId(StringOf(name));
  signature.framework_op = StringId(StringOf(context.op));
  signature.inputs = std::move(context.inputs);
  // Two contexts may differ only in id if a name was defined twice; equal content is one signature.
  const uint32_t index = InternValue(tables_.signatures, signature);
  signatures_.emplace(key, index);
  return index;
}

Status OpStream::PushCopy(const Record& record) {
  CanonicalOp op = {
      .kind = OpKind::kMemset, .stream = StreamOf(record.stream), .value = record.copy.bytes};
  if (record.kind == RecordKind::kMemcpy) {
    op.kind = OpKind::kMemcpy;
    op.flags = static_cast<uint8_t>((record.copy.host_to_device != 0 ? graph::kHostToDevice : 0) |
                                    (record.copy.device_to_host != 0 ? graph::kDeviceToHost : 0));
  }
  return AddOp(op);
}

// That of a stream is a data loader's worker's time (shim/observer/loader_workers.h): like a copy
// from the host, it keeps nobody but who waits for it.
Status OpStream::PushHostGap(const Record& record) {
  if (record.stream == 0) {
    return AddOp({.kind = OpKind::kHostGap, .value = record.host_gap.duration_ns});
  }
  return AddOp({.kind = OpKind::kMemcpy,
                .flags = graph::kHostToDevice | graph::kDurationFixed,
                .stream = StreamOf(record.stream),
                .value = record.host_gap.duration_ns});
}

Status OpStream::PushEvent(const Record& record) {
  const uint32_t event = record.event.event;
  const uint16_t stream = StreamOf(record.stream);
  if (record.kind == RecordKind::kEventWait) {
    PRISM_RETURN_IF_ERROR(
        AddOp({.kind = OpKind::kEventWait, .stream = stream, .dep = DepOf(event)}));
    completed_.back().waits_late = late_waits_.Wait(record.stream, event, iteration_);
    return OkStatus();
  }
  events_[event] = {.iteration = iteration_, .index = next_index_};
  late_waits_.Record(event, record.stream, iteration_);
  return AddOp({.kind = OpKind::kEventRecord, .stream = stream});
}

Status OpStream::PushSync(const Record& record) {
  switch (record.sync.kind) {
    case SyncKind::kStream:
      late_waits_.HostWaits(record.stream);
      return AddOp({.kind = OpKind::kStreamSync, .stream = StreamOf(record.stream)});
    case SyncKind::kEvent:
      PRISM_RETURN_IF_ERROR(AddOp({.kind = OpKind::kEventSync, .dep = DepOf(record.sync.event)}));
      completed_.back().waits_late = late_waits_.Wait({}, record.sync.event, iteration_);
      return OkStatus();
    case SyncKind::kDevice:
      late_waits_.HostWaits({});
      return AddOp({.kind = OpKind::kDeviceSync});
  }
  return Damaged(fmt::format("synchronisation of kind {}", static_cast<int>(record.sync.kind)));
}

Status OpStream::PushCollective(const Record& record) {
  const channel::CollectiveBody& body = record.collective;
  if (body.collective > static_cast<uint8_t>(graph::CollectiveKind::kScatter) ||
      body.reduce > static_cast<uint8_t>(graph::ReduceOp::kAvg) || !IsDataType(body.dtype)) {
    return Damaged("a collective of unknown kind, type or reduction");
  }
  PRISM_ASSIGN_OR_RETURN(const uint16_t slot, CommSlotOf(body.comm));
  const RecordedCommunicator& comm = tables_.comm_slots[slot];
  if (body.root >= comm.size) {
    return Damaged(fmt::format("root {} of a communicator of {} ranks", body.root, comm.size));
  }
  late_waits_.Transfer(record.stream);
  const graph::CollectiveShape shape = {.kind = static_cast<graph::CollectiveKind>(body.collective),
                                        .dtype = static_cast<DataType>(body.dtype),
                                        .reduce = static_cast<graph::ReduceOp>(body.reduce),
                                        .root = RootAmongAscending(comm, body.root),
                                        .bytes = body.bytes};
  PRISM_RETURN_IF_ERROR(AddBackwardSum(record));
  return AddOp(
      {.kind = OpKind::kCollective,
       .flags = static_cast<uint8_t>(body.grouped_with_next != 0 ? graph::kGroupedWithNext : 0),
       .stream = StreamOf(record.stream),
       .comm_slot = slot,
       .signature = InternValue(tables_.collectives, shape)});
}

Status OpStream::AddBackwardSum(const Record& record) {
  const channel::CollectiveBody& body = record.collective;
  PRISM_ASSIGN_OR_RETURN(const uint16_t slot, CommSlotOf(body.comm));
  if (static_cast<graph::CollectiveKind>(body.collective) == graph::CollectiveKind::kAllReduce &&
      forward_thread_.value_or(record.thread) != record.thread) {
    tables_.comm_slots[slot].backward_sum_bytes += body.bytes;
  }
  return OkStatus();
}

Status OpStream::PushGroupEnd(const Record& record) {
  std::vector<PendingTransfer> transfers = std::move(pending_[record.thread]);
  pending_[record.thread].clear();
  // One op for each stream of the group, in order of the streams' first transfers.
  std::vector<std::pair<uint16_t, graph::PeerGroup>> groups;
  for (const PendingTransfer& transfer : transfers) {
    PRISM_ASSIGN_OR_RETURN(const graph::PeerTransfer resolved, TransferOf(transfer.body));
    const uint16_t stream = StreamOf(transfer.stream);
    late_waits_.Transfer(transfer.stream);
    auto group =
        std::ranges::find_if(groups, [&](const auto& entry) { return entry.first == stream; });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {stream, graph::PeerGroup()});
    }
    group->second.transfers.push_back(resolved);
  }
  for (const auto& [stream, group] : groups) {
    PRISM_RETURN_IF_ERROR(AddOp({.kind = OpKind::kPeerGroup,
                                 .stream = stream,
                                 .signature = InternValue(tables_.peer_groups, group)}));
  }
  return OkStatus();
}

Result<graph::PeerTransfer> OpStream::TransferOf(const channel::PeerTransferBody& body) {
  PRISM_ASSIGN_OR_RETURN(const uint16_t slot, CommSlotOf(body.comm));
  const RecordedCommunicator& comm = tables_.comm_slots[slot];
  if (body.peer < 0 || body.peer >= comm.size) {
    return Damaged(fmt::format("peer {} of a communicator of {} ranks", body.peer, comm.size));
  }
  if (!comm.members_known) {
    return RunFailed(fmt::format(
        "send or receive with rank {} of process group \"{}\" ({} ranks), whose members the "
        "framework did not name",
        body.peer, comm.name, comm.size));
  }
  return graph::PeerTransfer{.is_send = body.is_send != 0,
                             .comm_slot = slot,
                             .peer_slot = PeerSlotOf(comm.members[static_cast<size_t>(body.peer)]),
                             .bytes = body.bytes};
}

// The program has no ranges for iterations: markers are inserted.
Status OpStream::BeginBefore() {
  if (inside_) {
    PRISM_RETURN_IF_ERROR(AddMarker(kIterationMarker, false));
  }
  StartIteration();
  return AddMarker(kIterationMarker, true);
}

Status OpStream::PushMarker(const Record& record) {
  PRISM_ASSIGN_OR_RETURN(const std::string name,
                         definitions_.Name(Table::kMarkerName, record.marker.name));
  const bool is_put_in = inside_ && !rule_.marked_by_program();
  const IterationRule::Edge edge = rule_.SeeMarker(record, name);
  if (edge == IterationRule::Edge::kBefore) {
    PRISM_RETURN_IF_ERROR(BeginBefore());
  } else if (edge == IterationRule::Edge::kBegin) {
    if (is_put_in) {
      PRISM_RETURN_IF_ERROR(AddMarker(kIterationMarker, false));
    }
    StartIteration();
  }
  PRISM_RETURN_IF_ERROR(AddMarker(name, record.marker.begin != 0));
  if (edge == IterationRule::Edge::kEnd) {
    inside_ = false;
  }
  return OkStatus();
}

Status OpStream::AddMarker(const std::string& name, bool begin) {
  if (iteration_ < 0) {
    return OkStatus();
  }
  return AddOp({.kind = OpKind::kMarker,
                .flags = static_cast<uint8_t>(begin ? graph::kMarkerBegin : graph::kMarkerEnd),
                .signature = StringOf(name)});
}

Result<uint16_t> OpStream::CommSlotOf(uint32_t comm) {
  const auto known = comm_slots_.find(comm);
  if (known != comm_slots_.end()) {
    return known->second;
  }
  const auto made = communicators_.find(comm);
  if (made == communicators_.end() || tables_.comm_slots.size() >= kMaxSlots) {
    return Damaged(fmt::format("communicator {} was never made", comm));
  }
  const auto slot = static_cast<uint16_t>(tables_.comm_slots.size());
  tables_.comm_slots.push_back(made->second);
  comm_slots_.emplace(comm, slot);
  return slot;
}

uint16_t OpStream::PeerSlotOf(Rank peer) {
  const auto slot = static_cast<uint16_t>(tables_.peer_slots.size());
  const auto [entry, is_new] = peer_slots_.emplace(peer, slot);
  if (is_new) {
    PRISM_CHECK_LT(tables_.peer_slots.size(), kMaxSlots);
    tables_.peer_slots.push_back(peer);
  }
  return entry->second;
}

uint16_t OpStream::StreamOf(uint16_t stream) {
  if (stream == 0) {
    return 0;
  }
  const auto [entry, is_new] = streams_.emplace(stream, tables_.stream_count);
  if (is_new) {
    ++tables_.stream_count;
  }
  return entry->second;
}

uint32_t OpStream::StringOf(const std::string& text) {
  if (text.empty()) {
    return 0;
  }
  return InternValue(tables_.strings, strings_, text);
}

uint32_t OpStream::DepOf(uint32_t event) const {
  const auto place = events_.find(event);
  return place != events_.end() && place->second.iteration == iteration_ ? place->second.index
                                                                         : graph::kNoDep;
}

}  // namespace prism::slicer
