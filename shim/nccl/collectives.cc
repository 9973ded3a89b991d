// NCCL's data calls: check the arguments, pass the op on (group.h).
#include <cstdio>
#include <mutex>

#include "shim/nccl/export.h"
#include "shim/nccl/group.h"

namespace prism::shim {

namespace {

// Which buffers must be present on every rank; the root of a call needs both.
enum class Buffers { kBoth, kSend, kRecv, kOnlySend, kOnlyRecv };

struct DataCall {
  const char* name;
  NcclOp op;
  ncclComm_t comm;
  ncclDataType_t type;
  Buffers buffers = Buffers::kBoth;
};

ncclResult_t Invalid(const DataCall& request, const char* what) {
  char message[128];
  std::snprintf(message, sizeof(message), "%s : invalid %s", request.name, what);
  return SetLastError(ncclInvalidArgument, message);
}

// Keeps the definition of a user-defined reduction: it may be destroyed, and its number reused, as
// soon as the call returns. False for a reduction that does not exist.
bool TakeReduction(NcclOp* op) {
  if (op->reduction < ncclNumOps) {
    return true;
  }
  Communicator& communicator = *op->communicator;
  const auto index = static_cast<size_t>(op->reduction - ncclNumOps);
  const std::lock_guard<std::mutex> lock(communicator.mutex);
  if (index >= communicator.scaled_sums.size()) {
    return false;
  }
  op->scaled = communicator.scaled_sums[index];
  return op->scaled.live;
}

bool HasBuffers(const DataCall& request) {
  const NcclOp& op = request.op;
  const bool is_root = op.root == op.communicator->rank;
  switch (request.buffers) {
    case Buffers::kBoth:
      return op.send != nullptr && op.recv != nullptr;
    case Buffers::kSend:
      return op.send != nullptr && (op.recv != nullptr || !is_root);
    case Buffers::kRecv:
      return op.recv != nullptr && (op.send != nullptr || !is_root);
    case Buffers::kOnlySend:
      return op.send != nullptr;
    case Buffers::kOnlyRecv:
      break;
  }
  return op.recv != nullptr;
}

ncclResult_t CheckAndSubmit(DataCall request) {
  NcclOp& op = request.op;
  op.communicator = FindCommunicator(request.comm);
  if (op.communicator == nullptr) {
    return Invalid(request, "communicator");
  }
  if (request.type < 0 || request.type >= ncclNumTypes) {
    return Invalid(request, "type");
  }
  if (op.root < -1 || op.root >= op.communicator->size) {
    return Invalid(request, "root or peer");
  }
  if (!TakeReduction(&op)) {
    return Invalid(request, "reduction operation");
  }
  if (op.communicator->async_error.load() != ncclSuccess) {
    return static_cast<ncclResult_t>(op.communicator->async_error.load());
  }
  if (op.count == 0) {
    return ncclSuccess;  // NCCL discards empty calls as well
  }
  if (!HasBuffers(request)) {
    return Invalid(request, "buffer");
  }
  op.element = static_cast<Element>(request.type);
  if (!op.communicator->named.load(std::memory_order_relaxed)) {
    NameLate(op.communicator);
  }
  return Submit(op);
}

}  // namespace

extern "C" {

// The calls with two buffers: operation, which buffers are needed, further parameters and the
// fields of the op that they are for.
#define PRISM_FURTHER(...) __VA_ARGS__
#define PRISM_COLLECTIVE(call, kind, needed, further, ...)                            \
  ncclResult_t nccl##call(const void* send, void* recv, size_t count,                 \
                          ncclDataType_t type PRISM_FURTHER further, ncclComm_t comm, \
                          cudaStream_t stream) {                                      \
    return CheckAndSubmit({.name = #call,                                             \
                           .op = {.operation = ExchangeOperation::kind,               \
                                  .send = send,                                       \
                                  .recv = recv,                                       \
                                  .count = count,                                     \
                                  __VA_OPT__(__VA_ARGS__, ).stream = stream},         \
                           .comm = comm,                                              \
                           .type = type,                                              \
                           .buffers = Buffers::needed});                              \
  }                                                                                   \
  PRISM_PNCCL(call)

PRISM_COLLECTIVE(AllReduce, kAllReduce, kBoth, (, ncclRedOp_t op), .reduction = op);
PRISM_COLLECTIVE(
    Reduce, kReduce, kSend, (, ncclRedOp_t op, int root), .reduction = op, .root = root);
PRISM_COLLECTIVE(Broadcast, kBroadcast, kRecv, (, int root), .root = root);
PRISM_COLLECTIVE(AllGather, kAllGather, kBoth, ());
PRISM_COLLECTIVE(ReduceScatter, kReduceScatter, kBoth, (, ncclRedOp_t op), .reduction = op);
PRISM_COLLECTIVE(AlltoAll, kAllToAll, kBoth, ());
PRISM_COLLECTIVE(Gather, kGather, kSend, (, int root), .root = root);
PRISM_COLLECTIVE(Scatter, kScatter, kRecv, (, int root), .root = root);
#undef PRISM_COLLECTIVE
#undef PRISM_FURTHER

ncclResult_t ncclBcast(void* buff,
                       size_t count,
                       ncclDataType_t datatype,
                       int root,
                       ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

ncclResult_t ncclSend(const void* sendbuff,
                      size_t count,
                      ncclDataType_t datatype,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  return CheckAndSubmit({.name = "Send",
                         .op = {.operation = ExchangeOperation::kSend,
                                .send = sendbuff,
                                .count = count,
                                .root = peer,
                                .stream = stream},
                         .comm = comm,
                         .type = datatype,
                         .buffers = Buffers::kOnlySend});
}

ncclResult_t ncclRecv(void* recvbuff,
                      size_t count,
                      ncclDataType_t datatype,
                      int peer,
                      ncclComm_t comm,
                      cudaStream_t stream) {
  return CheckAndSubmit({.name = "Recv",
                         .op = {.operation = ExchangeOperation::kRecv,
                                .recv = recvbuff,
                                .count = count,
                                .root = peer,
                                .stream = stream},
                         .comm = comm,
                         .type = datatype,
                         .buffers = Buffers::kOnlyRecv});
}

PRISM_PNCCL(Bcast);
PRISM_PNCCL(Send);
PRISM_PNCCL(Recv);

}  // extern "C"
}  // namespace prism::shim
