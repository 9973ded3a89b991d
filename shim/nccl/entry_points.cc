// NCCL's other calls: version, errors, communicators, groups, memory, registration, user-defined
// reductions. What is not here refuses by name (generated stubs).
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "graph/base/fnv.h"
#include "shim/nccl/communicator.h"
#include "shim/nccl/export.h"
#include "shim/nccl/group.h"
#include "shim/nccl/split.h"
#include "shim/session.h"
#include "shim/virtual_device/library_versions.h"

namespace prism::shim {

namespace {

ncclComm_t Handle(Communicator* communicator) {
  return reinterpret_cast<ncclComm_t>(communicator);
}

ncclResult_t Invalid(const char* message) {
  return SetLastError(ncclInvalidArgument, message);
}

ncclResult_t Create(ncclComm_t* comm, const CommunicatorSpec& spec) {
  Communicator* made = CreateCommunicator(spec);
  if (made == nullptr) {
    return SetLastError(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
  }
  *comm = Handle(made);
  return ncclSuccess;
}

ncclResult_t Init(ncclComm_t* comm, int size, int rank, const ncclUniqueId* ids, int id_count) {
  if (comm == nullptr || size < 1 || rank < 0 || rank >= size || id_count < 1) {
    return Invalid("ncclCommInitRank : invalid size or rank");
  }
  const uint64_t identity = FnvBytes(ids, static_cast<size_t>(id_count) * sizeof(ncclUniqueId));
  return Create(comm, DescribeGroup(size, rank, identity));
}

// A split or shrink: both create a child of `parent` and inherit nothing else.
ncclResult_t CreateChild(ncclComm_t* comm, const SplitResult& split) {
  if (split.code != ncclSuccess) {
    return split.code;
  }
  if (!split.is_member) {
    *comm = nullptr;
    return ncclSuccess;
  }
  return Create(comm, split.child);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) {
    return Invalid("ncclGetVersion : invalid pointer");
  }
  *version = NcclVersion();
  return ncclSuccess;
}

// Ids differ between processes by their rank and in one process by a count, and are the same in
// every run.
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<uint32_t> count{0};
  if (id == nullptr) {
    return Invalid("ncclGetUniqueId : invalid pointer");
  }
  std::memset(id, 0, sizeof(*id));
  std::snprintf(id->internal, sizeof(id->internal), "prism rank %d number %u", SessionConfig().rank,
                count.fetch_add(1));
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  static constexpr const char* kTexts[] = {
      "no error",
      "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
      "unhandled system error (run with NCCL_DEBUG=INFO for details)",
      "internal error - please report this issue to the NCCL developers",
      "invalid argument (run with NCCL_DEBUG=WARN for details)",
      "invalid usage (run with NCCL_DEBUG=WARN for details)",
      "remote process exited or there was a network error",
      "NCCL operation in progress"};
  const auto index = static_cast<size_t>(code);
  return index < std::size(kTexts) ? kTexts[index] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return LastError();
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return Init(comm, nranks, rank, &id, 1);
}

ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* /*config*/) {
  return Init(comm, nranks, rank, &id, 1);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm,
                                      int nranks,
                                      int rank,
                                      int id_count,
                                      ncclUniqueId* ids,
                                      ncclConfig_t* /*config*/) {
  return Init(comm, nranks, rank, ids, id_count);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int device_count, const int* /*devices*/) {
  if (device_count != 1) {
    Refuse("ncclCommInitAll with several devices");
    return SetLastError(ncclInvalidUsage, "one device a process is supported");
  }
  ncclUniqueId id = {};
  ncclGetUniqueId(&id);
  return Init(comm, 1, 0, &id, 1);
}

ncclResult_t ncclCommSplit(
    ncclComm_t comm, int color, int key, ncclComm_t* child, ncclConfig_t* /*config*/) {
  Communicator* parent = FindCommunicator(comm);
  if (parent == nullptr || child == nullptr) {
    return Invalid("ncclCommSplit : invalid communicator");
  }
  return CreateChild(child, Split(parent, color, key));
}

ncclResult_t ncclCommShrink(ncclComm_t comm,
                            int* excluded,
                            int excluded_count,
                            ncclComm_t* child,
                            ncclConfig_t* /*config*/,
                            int /*flags*/) {
  Communicator* parent = FindCommunicator(comm);
  if (parent == nullptr || child == nullptr || excluded == nullptr || excluded_count < 1) {
    return Invalid("ncclCommShrink : invalid argument");
  }
  return CreateChild(child,
                     Shrink(parent, {excluded, excluded + static_cast<ptrdiff_t>(excluded_count)}));
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) {
    return ncclSuccess;
  }
  Communicator* communicator = FindCommunicator(comm);
  if (communicator == nullptr) {
    return Invalid("ncclCommDestroy : invalid communicator");
  }
  DestroyCommunicator(communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (Communicator* const communicator = FindCommunicator(comm); communicator != nullptr) {
    communicator->aborted.store(true);
  }
  return ncclCommDestroy(comm);
}

// Nothing is in flight on a virtual device, so there is nothing to stop.
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  return FindCommunicator(comm) == nullptr || flags != NCCL_REVOKE_DEFAULT
             ? Invalid("ncclCommRevoke : invalid argument")
             : ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const Communicator* communicator = FindCommunicator(comm);
  if (communicator == nullptr || error == nullptr) {
    return Invalid("ncclCommGetAsyncError : invalid communicator");
  }
  *error = static_cast<ncclResult_t>(communicator->async_error.load());
  return ncclSuccess;
}

// A fact about a communicator.
#define PRISM_COMM_GETTER(call, field)                         \
  ncclResult_t nccl##call(const ncclComm_t comm, int* value) { \
    const Communicator* communicator = FindCommunicator(comm); \
    if (communicator == nullptr || value == nullptr) {         \
      return Invalid("nccl" #call " : invalid communicator");  \
    }                                                          \
    *value = communicator->field;                              \
    return ncclSuccess;                                        \
  }                                                            \
  PRISM_PNCCL(call);
PRISM_COMM_GETTER(CommCount, size)
PRISM_COMM_GETTER(CommCuDevice, device)
PRISM_COMM_GETTER(CommUserRank, rank)
#undef PRISM_COMM_GETTER

// Nothing to do.
#define PRISM_COMM_DONE(call, ...)                                                             \
  ncclResult_t nccl##call(__VA_ARGS__) {                                                       \
    return FindCommunicator(comm) == nullptr ? Invalid("nccl" #call " : invalid communicator") \
                                             : ncclSuccess;                                    \
  }                                                                                            \
  PRISM_PNCCL(call);
PRISM_COMM_DONE(CommFinalize, ncclComm_t comm)
PRISM_COMM_DONE(CommDeregister, const ncclComm_t comm, void* /*handle*/)
PRISM_COMM_DONE(CommWindowDeregister, ncclComm_t comm, ncclWindow_t /*window*/)
#undef PRISM_COMM_DONE

ncclResult_t ncclGroupStart() {
  return StartGroup();
}

ncclResult_t ncclGroupEnd() {
  return EndGroup();
}

// NCCL rounds sizes up to what the driver recommends for multicast, which no public source states.
ncclResult_t ncclMemAlloc(void** pointer, size_t size) {
  if (pointer == nullptr) {
    return Invalid("ncclMemAlloc : invalid pointer");
  }
  Count("nccl_allocations_not_rounded");
  *pointer = nullptr;
  return size != 0 && cudaMalloc(pointer, size) != cudaSuccess
             ? SetLastError(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'")
             : ncclSuccess;
}

ncclResult_t ncclMemFree(void* pointer) {
  return pointer == nullptr || cudaFree(pointer) == cudaSuccess
             ? ncclSuccess
             : Invalid("ncclMemFree : invalid pointer");
}

// Registration only changes how a real NCCL moves data; the handle is the buffer itself.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t size, void** handle) {
  if (FindCommunicator(comm) == nullptr || buffer == nullptr || size == 0 || handle == nullptr) {
    return Invalid("ncclCommRegister : invalid argument");
  }
  *handle = buffer;
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(
    ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window, int /*flags*/) {
  if (FindCommunicator(comm) == nullptr || buffer == nullptr || size == 0 || window == nullptr) {
    return Invalid("ncclCommWindowRegister : invalid argument");
  }
  *window = static_cast<ncclWindow_t>(buffer);
  return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op,
                                      void* scalar,
                                      ncclDataType_t datatype,
                                      ncclScalarResidence_t residence,
                                      ncclComm_t comm) {
  Communicator* communicator = FindCommunicator(comm);
  if (communicator == nullptr || op == nullptr || scalar == nullptr || datatype < 0 ||
      datatype >= ncclNumTypes) {
    return Invalid("ncclRedOpCreatePreMulSum : invalid argument");
  }
  ScaledSum sum;
  sum.live = true;
  sum.element = static_cast<Element>(datatype);
  sum.on_device = residence == ncclScalarDevice;
  sum.device = scalar;
  sum.scale = sum.on_device ? 1 : ReadScalar(scalar, sum.element);
  const std::lock_guard<std::mutex> lock(communicator->mutex);
  auto& sums = communicator->scaled_sums;
  auto free = std::find_if(sums.begin(), sums.end(), [](const auto& each) { return !each.live; });
  if (free == sums.end()) {
    free = sums.emplace(sums.end());
  }
  *free = sum;
  *op = static_cast<ncclRedOp_t>(ncclNumOps + (free - sums.begin()));
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  Communicator* communicator = FindCommunicator(comm);
  const auto index = static_cast<size_t>(op - ncclNumOps);
  if (communicator == nullptr || op < ncclNumOps) {
    return Invalid("ncclRedOpDestroy : invalid argument");
  }
  const std::lock_guard<std::mutex> lock(communicator->mutex);
  if (index >= communicator->scaled_sums.size() || !communicator->scaled_sums[index].live) {
    return Invalid("ncclRedOpDestroy : invalid reduction operation");
  }
  communicator->scaled_sums[index].live = false;
  return ncclSuccess;
}

PRISM_PNCCL(GetVersion);
PRISM_PNCCL(GetUniqueId);
PRISM_PNCCL(GetErrorString);
PRISM_PNCCL(GetLastError);
PRISM_PNCCL(CommInitRank);
PRISM_PNCCL(CommInitRankConfig);
PRISM_PNCCL(CommInitRankScalable);
PRISM_PNCCL(CommInitAll);
PRISM_PNCCL(CommSplit);
PRISM_PNCCL(CommShrink);
PRISM_PNCCL(CommDestroy);
PRISM_PNCCL(CommAbort);
PRISM_PNCCL(CommRevoke);
PRISM_PNCCL(CommGetAsyncError);
PRISM_PNCCL(GroupStart);
PRISM_PNCCL(GroupEnd);
PRISM_PNCCL(MemAlloc);
PRISM_PNCCL(MemFree);
PRISM_PNCCL(CommRegister);
PRISM_PNCCL(CommWindowRegister);
PRISM_PNCCL(RedOpCreatePreMulSum);
PRISM_PNCCL(RedOpDestroy);

}  // extern "C"
}  // namespace prism::shim
