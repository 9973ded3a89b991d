// Streams: small objects behind the handles; the default streams have none.
#include "shim/virtual_device/stream.h"

#include <atomic>
#include <new>

#include <cuda_runtime_api.h>

#include "shim/session.h"
#include "shim/virtual_device/capture.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/launch_queue.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;
using channel::SyncKind;

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;  // of the real runtime since compute capability 7.0

// Records have 16 bits for it, and 0 is the default stream. Returns 0 if all are taken.
uint16_t NewIndex() {
  static std::atomic<uint32_t> next{1};
  const uint32_t index = next.fetch_add(1);
  if (index > UINT16_MAX) {
    Refuse("cudaStreamCreate (of the 65,536th stream)");
    return 0;
  }
  return static_cast<uint16_t>(index);
}

// cudaStreamLegacy and cudaStreamPerThread are the handles 1 and 2.
bool IsLegacy(const void* stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 1;
}

bool IsDefault(const void* stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2;
}

uint16_t ThreadStreamIndex() {
  thread_local uint16_t index = 0;
  if (index == 0) {
    index = NewIndex();
  }
  return index;
}

Reply Synchronize(SyncKind kind, uint16_t stream) {
  Record record = {};
  record.kind = RecordKind::kSync;
  record.stream = stream;
  record.sync.kind = kind;
  NoteHostWait(LastIssuedOp());
  return Request(record);
}

}  // namespace

uint16_t StreamIndex(const void* stream) {
  if (IsLegacy(stream)) {
    return 0;
  }
  return IsDefault(stream) ? ThreadStreamIndex() : static_cast<const StreamObject*>(stream)->index;
}

void CountImplicitOrder(const void* stream) {
  const bool legacy = IsLegacy(stream);
  const bool waits = !IsDefault(stream) &&
                     (static_cast<const StreamObject*>(stream)->flags & cudaStreamNonBlocking) == 0;
  if (!legacy && !waits) {
    return;
  }
  enum Kind { kNone, kLegacy, kWaits };
  static std::atomic<int> last_kind{kNone};
  const int kind = legacy ? kLegacy : kWaits;
  if (last_kind.load(std::memory_order_relaxed) == kind) {
    return;
  }
  if (last_kind.exchange(kind, std::memory_order_relaxed) != kNone) {
    Count("default_stream_order_left_out");
  }
}

const StreamObject* FindStream(cudaStream_t stream) {
  return IsDefault(stream) ? nullptr : reinterpret_cast<const StreamObject*>(stream);
}

void SynchronizeStream(cudaStream_t stream) {
  Synchronize(SyncKind::kStream, StreamIndex(stream));
}

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  EnsureContext();
  const uint16_t index = NewIndex();
  auto* const object = index == 0 ? nullptr
                                  : new (std::nothrow)
                                        StreamObject{index, priority, flags, CurrentDevice()};
  if (object == nullptr) {
    return Return(cudaErrorMemoryAllocation);
  }
  *stream = reinterpret_cast<cudaStream_t>(object);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, kLeastPriority);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, kLeastPriority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete FindStream(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  const StreamObject* const object = FindStream(stream);
  *priority = object == nullptr ? kLeastPriority : object->priority;
  return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  const StreamObject* const object = FindStream(stream);
  *flags = object == nullptr ? cudaStreamDefault : object->flags;
  return cudaSuccess;
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  *id = StreamIndex(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  const StreamObject* const object = FindStream(stream);
  *device = object == nullptr ? CurrentDevice() : object->device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = kLeastPriority;
  *greatest = kGreatestPriority;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = CheckWait(stream); error != cudaSuccess) {
    return error;
  }
  SynchronizeStream(stream);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  EnsureContext();
  if (const cudaError_t error = CheckWaitForAll(); error != cudaSuccess) {
    return error;
  }
  Synchronize(SyncKind::kDevice, 0);
  return cudaSuccess;
}

// Programs poll until a stream is done, so a query waits for it: the answer is correct in virtual
// time, and the loop takes the same time when recorded, replayed and emulated.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = CheckWait(stream); error != cudaSuccess) {
    return error;
  }
  Count("stream_query_taken_as_wait");
  SynchronizeStream(stream);
  return cudaSuccess;
}

// Host functions run when they are issued: no kernel computes anything that they could wait for.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (Keep(stream, cudaGraphNodeTypeHost, [=](const GraphRun& /*run*/) { function(data); })) {
    return cudaSuccess;
  }
  Count("host_functions_run_at_issue");
  function(data);
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                  cudaStreamCallback_t callback,
                                  void* data,
                                  unsigned int /*flags*/) {
  Count("host_functions_run_at_issue");
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}
}  // extern "C"
}  // namespace prism::shim
