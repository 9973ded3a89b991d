// NCCL's data calls: check the arguments, pass the op on (group.h).
#include <cstdio>
#include <mutex>

#include "shim/nccl/export.h"
#include "shim/nccl/group.h"
#include "shim/session.h"

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

}  // namespace prism::shim

using prism::shim::Buffers;
using prism::shim::CheckAndSubmit;
using prism::shim::ExchangeOperation;

extern "C" {

ncclResult_t ncclAllReduce(const void* sendbuff,
                           void* recvbuff,
                           size_t count,
                           ncclDataType_t datatype,
                           ncclRedOp_t op,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return CheckAndSubmit({.name = "AllReduce",
                         .op = {.operation = ExchangeOperation::kAllReduce,
                                .send = sendbuff,
                                .recv = recvbuff,
                                .count = count,
                                .reduction = op,
                                .stream = stream},
                         .comm = comm,
                         .type = datatype});
}

ncclResult_t ncclReduce(const void* sendbuff,
                        void* recvbuff,
                        size_t count,
                        ncclDataType_t datatype,
                        ncclRedOp_t op,
                        int root,
                        ncclComm_t comm,
                        cudaStream_t stream) {
  return CheckAndSubmit({.name = "Reduce",
                         .op = {.operation = ExchangeOperation::kReduce,
                                .send = sendbuff,
                                .recv = recvbuff,
                                .count = count,
                                .reduction = op,
                                .root = root,
                                .stream = stream},
                         .comm = comm,
                         .type = datatype,
                         .buffers = Buffers::kSend});
}

ncclResult_t ncclBroadcast(const void* sendbuff,
                           void* recvbuff,
                           size_t count,
                           ncclDataType_t datatype,
                           int root,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return CheckAndSubmit({.name = "Broadcast",
                         .op = {.operation = ExchangeOperation::kBroadcast,
                                .send = sendbuff,
                                .recv = recvbuff,
                                .count = count,
                                .root = root,
                                .stream = stream},
                         .comm = comm,
                         .type = datatype,
                         .buffers = Buffers::kRecv});
}

ncclResult_t ncclBcast(void* buff,
                       size_t count,
                       ncclDataType_t datatype,
                       int root,
                       ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

ncclResult_t ncclAllGather(const void* sendbuff,
                           void* recvbuff,
                           size_t sendcount,
                           ncclDataType_t datatype,
                           ncclComm_t comm,
                           cudaStream_t stream) {
  return CheckAndSubmit({.name = "AllGather",
                         .op = {.operation = ExchangeOperation::kAllGather,
                                .send = sendbuff,
                                .recv = recvbuff,
                                .count = sendcount,
                                .stream = stream},
                         .comm = comm,
                         .type = datatype});
}

ncclResult_t ncclReduceScatter(const void* sendbuff,
                               void* recvbuff,
                               size_t recvcount,
                               ncclDataType_t datatype,
                               ncclRedOp_t op,
                               ncclComm_t comm,
                               cudaStream_t stream) {
  return CheckAndSubmit({.name = "ReduceScatter",
                         .op = {.operation = ExchangeOperation::kReduceScatter,
                                .send = sendbuff,
                                .recv = recvbuff,
                                .count = recvcount,
                                .reduction = op,
                                .stream = stream},
                         .comm = comm,
                         .type = datatype});
}

ncclResult_t ncclAlltoAll(const void* sendbuff,
                          void* recvbuff,
                          size_t count,
                          ncclDataType_t datatype,
                          ncclComm_t comm,
                          cudaStream_t stream) {
  return CheckAndSubmit({.name = "AlltoAll",
                         .op = {.operation = ExchangeOperation::kAllToAll,
                                .send = sendbuff,
                                .recv = recvbuff,
                                .count = count,
                                .stream = stream},
                         .comm = comm,
                         .type = datatype});
}

ncclResult_t ncclGather(const void* sendbuff,
                        void* recvbuff,
                        size_t count,
                        ncclDataType_t datatype,
                        int root,
                        ncclComm_t comm,
                        cudaStream_t stream) {
  return CheckAndSubmit({.name = "Gather",
                         .op = {.operation = ExchangeOperation::kGather,
                                .send = sendbuff,
                                .recv = recvbuff,
                                .count = count,
                                .root = root,
                                .stream = stream},
                         .comm = comm,
                         .type = datatype,
                         .buffers = Buffers::kSend});
}

ncclResult_t ncclScatter(const void* sendbuff,
                         void* recvbuff,
                         size_t count,
                         ncclDataType_t datatype,
                         int root,
                         ncclComm_t comm,
                         cudaStream_t stream) {
  return CheckAndSubmit({.name = "Scatter",
                         .op = {.operation = ExchangeOperation::kScatter,
                                .send = sendbuff,
                                .recv = recvbuff,
                                .count = count,
                                .root = root,
                                .stream = stream},
                         .comm = comm,
                         .type = datatype,
                         .buffers = Buffers::kRecv});
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

PRISM_PNCCL(AllReduce);
PRISM_PNCCL(Reduce);
PRISM_PNCCL(Broadcast);
PRISM_PNCCL(Bcast);
PRISM_PNCCL(AllGather);
PRISM_PNCCL(ReduceScatter);
PRISM_PNCCL(AlltoAll);
PRISM_PNCCL(Gather);
PRISM_PNCCL(Scatter);
PRISM_PNCCL(Send);
PRISM_PNCCL(Recv);

}  // extern "C"
