#include "shim/nccl/group.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <vector>

#include "shim/clock/host_meter.h"
#include "shim/nccl/device_values.h"
#include "shim/session.h"
#include "shim/source_line.h"
#include "shim/virtual_device/capture.h"
#include "shim/virtual_device/stream.h"

namespace prism::shim {

namespace {

using channel::Record;
using channel::RecordKind;
using graph::CollectiveKind;

// What a thread has open. Only trivially destructible pointers: threads may end at any time.
struct ThreadGroup {
  int depth = 0;
  std::vector<NcclOp>* ops = nullptr;
};

thread_local ThreadGroup thread_group;

// What a graph launches is on a stream of the recording device already.
cudaStream_t RecordedStream(const NcclOp& op) {
  return op.captured != nullptr ? op.stream : StreamOfCall(op.stream).recorded;
}

DataType DataTypeOf(Element element) {
  constexpr DataType kTypes[kElementCount] = {
      DataType::kInt8,    DataType::kUint8,    DataType::kInt32,   DataType::kInt32,
      DataType::kInt64,   DataType::kInt64,    DataType::kFloat16, DataType::kFloat32,
      DataType::kFloat64, DataType::kBfloat16, DataType::kFloat8,  DataType::kFloat8};
  return kTypes[static_cast<size_t>(element)];
}

graph::ReduceOp ReduceOpOf(int reduction) {
  using graph::ReduceOp;
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin,
                               ReduceOp::kAvg};  // by ncclRedOp_t
  if (reduction < 0) {
    return ReduceOp::kNone;
  }
  return reduction <= ncclAvg ? kOps[reduction] : ReduceOp::kSum;  // scaled sums
}

// graph::CollectiveShape::bytes: the larger of the two buffers of one rank.
int64_t CollectiveBytes(const NcclOp& op) {
  const auto bytes = static_cast<int64_t>(op.count * ElementBytes(op.element));
  switch (op.operation) {
    case ExchangeOperation::kAllReduce:
    case ExchangeOperation::kReduce:
    case ExchangeOperation::kBroadcast:
      return bytes;
    default:
      return bytes * op.communicator->size;
  }
}

void EmitCollective(const NcclOp& op, uint32_t sequence, bool grouped_with_next) {
  Record record = {};
  record.kind = RecordKind::kCollective;
  record.stream = StreamIndex(RecordedStream(op));
  record.collective.comm = op.communicator->id;
  record.collective.collective = static_cast<uint8_t>(CollectiveKindOf(op.operation));
  record.collective.dtype = static_cast<uint8_t>(DataTypeOf(op.element));
  record.collective.reduce = static_cast<uint8_t>(ReduceOpOf(op.reduction));
  record.collective.grouped_with_next = grouped_with_next ? 1 : 0;
  record.collective.root = op.root;
  record.collective.sequence = sequence;
  record.collective.bytes = CollectiveBytes(op);
  record.hold_stream = op.hold_stream;
  Emit(record);
}

// A communicator of one rank launches no collective: NCCL copies, or does nothing in place
// (src/enqueue.cc, ncclLaunchOneRank).
void EmitOneRankCopy(const NcclOp& op) {
  if (op.recv == nullptr || op.send == op.recv) {
    return;
  }
  Record record = {};
  record.kind = RecordKind::kMemcpy;
  record.stream = StreamIndex(RecordedStream(op));
  record.copy.bytes = static_cast<int64_t>(op.count * ElementBytes(op.element));
  Emit(record);
}

// All transfers of one stream, closed by kGroupEnd.
void EmitTransfers(const std::vector<NcclOp>& transfers) {
  std::vector<cudaStream_t> streams;
  for (const NcclOp& op : transfers) {
    if (std::find(streams.begin(), streams.end(), op.stream) == streams.end()) {
      streams.push_back(op.stream);
    }
  }
  for (cudaStream_t stream : streams) {
    Record record = {};
    uint32_t hold_stream = 0;
    for (const NcclOp& op : transfers) {
      if (op.stream != stream) {
        continue;
      }
      hold_stream = op.hold_stream;
      record.stream = StreamIndex(RecordedStream(op));
      record.kind = RecordKind::kPeerTransfer;
      record.peer.comm = op.communicator->id;
      record.peer.peer = op.root;
      record.peer.bytes = static_cast<int64_t>(op.count * ElementBytes(op.element));
      record.peer.is_send = op.operation == ExchangeOperation::kSend ? 1 : 0;
      record.peer.dtype = static_cast<uint8_t>(DataTypeOf(op.element));
      Emit(record);
    }
    const uint16_t index = record.stream;
    record = {};
    record.kind = RecordKind::kGroupEnd;
    record.stream = index;
    record.hold_stream = hold_stream;
    Emit(record);
  }
}

bool TakeMemory(const NcclOp& op) {
  Communicator& communicator = *op.communicator;
  const std::lock_guard<std::mutex> lock(communicator.mutex);
  if (!IsTransfer(op)) {
    return communicator.size < 2 ||
           communicator.memory.TakeForCollective(op.operation == ExchangeOperation::kAllReduce);
  }
  return op.root == communicator.rank ||
         communicator.memory.TakeForPeer(op.root, communicator.OnSameNode(op.root),
                                         op.operation == ExchangeOperation::kSend);
}

// NCCL builds all_to_all, gather and scatter from sends and receives, so their buffers are those.
bool TakeMemoryOfPeers(const NcclOp& op) {
  const int32_t rank = op.communicator->rank;
  const bool to_all = op.operation == ExchangeOperation::kAllToAll;
  const bool to_root = op.operation == ExchangeOperation::kGather;
  for (int32_t peer = 0; peer < op.communicator->size; ++peer) {
    const bool sends = to_all || op.root == (to_root ? peer : rank);
    const bool receives = to_all || op.root == (to_root ? rank : peer);
    NcclOp transfer = op;
    transfer.root = peer;
    transfer.operation = ExchangeOperation::kSend;
    if (sends && !TakeMemory(transfer)) {
      return false;
    }
    transfer.operation = ExchangeOperation::kRecv;
    if (receives && !TakeMemory(transfer)) {
      return false;
    }
  }
  return true;
}

bool TakeMemoryOf(const NcclOp& op) {
  switch (op.operation) {
    case ExchangeOperation::kAllToAll:
    case ExchangeOperation::kGather:
    case ExchangeOperation::kScatter:
      return TakeMemoryOfPeers(op);
    default:
      return TakeMemory(op);
  }
}

uint32_t NextSequence(Communicator* communicator) {
  const std::lock_guard<std::mutex> lock(communicator->mutex);
  return communicator->next_sequence++;
}

// Whether another collective of the group follows on the stream; what a communicator of one rank
// does is not a collective.
bool IsGroupedWithNext(const std::vector<NcclOp>& collectives, size_t i) {
  return std::any_of(collectives.begin() + static_cast<std::ptrdiff_t>(i) + 1, collectives.end(),
                     [&](const NcclOp& later) {
                       return later.communicator->size > 1 &&
                              RecordedStream(later) == RecordedStream(collectives[i]);
                     });
}

// Records first: transferring values may wait for a sandbox rank whose progress depends on what
// this one has issued.
ncclResult_t Issue(const std::vector<NcclOp>& ops) {
  ReportSourceLine();
  std::vector<NcclOp> collectives;
  std::vector<NcclOp> transfers;
  for (const NcclOp& op : ops) {
    (IsTransfer(op) ? transfers : collectives).push_back(op);
  }
  std::vector<uint32_t> sequences;
  for (size_t i = 0; i < collectives.size(); ++i) {
    sequences.push_back(NextSequence(collectives[i].communicator));
    if (collectives[i].communicator->size == 1) {
      EmitOneRankCopy(collectives[i]);
    } else {
      EmitCollective(collectives[i], sequences.back(), IsGroupedWithNext(collectives, i));
    }
  }
  EmitTransfers(transfers);
  Fence();
  const InShim inside;  // what moves values is no time of the program
  for (size_t i = 0; i < collectives.size(); ++i) {
    const ncclResult_t result = MoveCollective(collectives[i], sequences[i]);
    if (result != ncclSuccess) {
      return result;
    }
  }
  return transfers.empty() ? ncclSuccess : MoveTransfers(transfers);
}

bool IsBroadcastAlike(const NcclOp& op, const NcclOp& other) {
  return op.operation == ExchangeOperation::kBroadcast &&
         other.operation == ExchangeOperation::kBroadcast &&
         op.communicator == other.communicator && op.count == other.count &&
         op.element == other.element;
}

// The "nccl" of torch 2.15 makes an all_gather of broadcasts, one per root, in one group.
void MarkGathers(std::vector<NcclOp>* ops) {
  for (size_t i = 0; i < ops->size(); ++i) {
    const NcclOp own = (*ops)[i];
    const auto size = static_cast<size_t>(own.communicator->size);
    if (own.operation != ExchangeOperation::kBroadcast || own.root != own.communicator->rank) {
      continue;
    }
    const auto alike = [&](const NcclOp& op) { return IsBroadcastAlike(op, own); };
    if (size < 2 || static_cast<size_t>(std::ranges::count_if(*ops, alike)) % size != 0) {
      continue;
    }
    for (NcclOp& op : *ops) {
      op.gathered = op.gathered == nullptr && alike(op) ? own.send : op.gathered;
    }
  }
}

ncclResult_t CarryOut(std::vector<NcclOp> ops) {
  MarkGathers(&ops);
  for (const NcclOp& op : ops) {
    if (!TakeMemoryOf(op)) {
      return SetLastError(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
    }
  }
  const cudaStream_t stream = StreamOfCall(ops.front().stream).recorded;
  if (!IsCaptured(stream)) {
    return Issue(ops);
  }
  if (const ncclResult_t result = Capture(ops); result != ncclSuccess) {
    return result;
  }
  // The group is one node of the graph, issued anew at each launch.
  Keep(stream, cudaGraphNodeTypeKernel, [ops](const GraphRun& graph) {
    std::vector<NcclOp> issued = ops;
    for (NcclOp& op : issued) {
      op.stream = graph.Stream(StreamOfCall(op.stream).recorded);
    }
    Issue(issued);
  });
  return ncclSuccess;
}

// The text outlives every caller of ncclGetLastError; concurrent failures may mix two messages.
struct ErrorText {
  std::mutex mutex;
  char text[400] = "";
};

ErrorText& GetErrorText() {
  static ErrorText error;
  return error;
}

}  // namespace

Blocks BlocksOf(const NcclOp& op) {
  const int32_t size = op.communicator->size;
  const bool is_root = op.root == op.communicator->rank;
  switch (op.operation) {
    case ExchangeOperation::kAllGather:
      return {1, size};
    case ExchangeOperation::kReduceScatter:
      return {size, 1};
    case ExchangeOperation::kAllToAll:
      return {size, size};
    case ExchangeOperation::kReduce:
      return {1, is_root ? 1 : 0};
    case ExchangeOperation::kGather:
      return {1, is_root ? size : 0};
    case ExchangeOperation::kBroadcast:
      // In place, the root's own bytes stay.
      return is_root ? Blocks{1, op.send == op.recv ? 0 : 1} : Blocks{0, 1};
    case ExchangeOperation::kScatter:
      return {is_root ? size : 0, 1};
    default:
      return {op.send == nullptr ? 0 : 1, op.recv == nullptr ? 0 : 1};
  }
}

CollectiveKind CollectiveKindOf(ExchangeOperation operation) {
  using enum graph::CollectiveKind;
  constexpr CollectiveKind kKinds[] = {kAllReduce, kAllReduce, kReduce, kAllGather, kReduceScatter,
                                       kBroadcast, kAllToAll,  kGather, kScatter};
  static_assert(kKinds[static_cast<size_t>(ExchangeOperation::kScatter)] == kScatter);
  return kKinds[static_cast<size_t>(operation)];
}

const char* LastError() {
  return GetErrorText().text;
}

ncclResult_t SetLastError(ncclResult_t code, const char* message) {
  ErrorText& error = GetErrorText();
  const std::lock_guard<std::mutex> lock(error.mutex);
  std::snprintf(error.text, sizeof(error.text), "%s", message);
  return code;
}

ncclResult_t StartGroup() {
  ++thread_group.depth;
  return ncclSuccess;
}

ncclResult_t EndGroup() {
  if (thread_group.depth == 0) {
    return SetLastError(ncclInvalidUsage, "ncclGroupEnd: not in a group call");
  }
  if (--thread_group.depth > 0 || thread_group.ops == nullptr) {
    return ncclSuccess;
  }
  std::vector<NcclOp> ops;
  ops.swap(*thread_group.ops);
  delete thread_group.ops;
  thread_group.ops = nullptr;
  return ops.empty() ? ncclSuccess : CarryOut(std::move(ops));
}

ncclResult_t Submit(NcclOp op) {
  op.hold_stream = StreamOfCall(op.stream).hold_stream;
  if (thread_group.depth == 0) {
    return CarryOut({op});
  }
  if (thread_group.ops == nullptr) {
    thread_group.ops = new std::vector<NcclOp>();
  }
  thread_group.ops->push_back(op);
  return ncclSuccess;
}

}  // namespace prism::shim
