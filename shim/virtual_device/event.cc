// Events, each with a dense id. Whether and when one is reached is decided by the worker; while
// recording every event is reached at once, except for the caching allocator (launch_queue.h).
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <string_view>

#include <cuda_runtime_api.h>

#include "shim/clock/watchdogs.h"
#include "shim/session.h"
#include "shim/virtual_device/capture.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/issue.h"
#include "shim/virtual_device/launch_queue.h"
#include "shim/virtual_device/runtime_state.h"
#include "shim/virtual_device/stream.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;

std::atomic<uint32_t> next_event{1};

EventObject* Object(cudaEvent_t event) {
  return reinterpret_cast<EventObject*>(event);
}

Record EventRecord(RecordKind kind, cudaEvent_t event, cudaStream_t stream) {
  Record record = {};
  record.kind = kind;
  record.stream = StreamIndex(stream);
  record.event.event = Object(event)->id;
  return record;
}

bool WasRecorded(cudaEvent_t event) {
  return Object(event)->recorded.load(std::memory_order_relaxed);
}

// The error of a call that asks for an event: an event of a capture has no state, and querying may
// be forbidden while a capture is in progress.
cudaError_t CheckEvent(cudaEvent_t event) {
  return Object(event)->capture.load(std::memory_order_relaxed) != 0
             ? Return(cudaErrorCapturedEvent)
             : CheckUnsafeCall();
}

// Who asks for an event. The caching allocator asks before it gives away a block that another
// stream used; c10d's watchdog and the allocator of pinned memory ask in passing, a program
// deliberately.
enum class Asker : uint8_t { kProgram, kInPassing, kCachingAllocator };

Asker FindAsker(const void* caller) {
  Dl_info info = {};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) {
    return Asker::kProgram;
  }
  const std::string_view library = info.dli_fname;
  if (library.ends_with("/libc10_cuda.so")) {
    return Asker::kCachingAllocator;
  }
  return library.ends_with("/libtorch_cuda.so") ? Asker::kInPassing : Asker::kProgram;
}

// Looking up a library takes microseconds, and allocators ask at every block: the last callers are
// kept.
Asker AskerOf(const void* caller) {
  struct Known {
    const void* caller = nullptr;
    Asker asker = Asker::kProgram;
  };
  thread_local std::array<Known, 8> known = {};
  thread_local size_t next = 0;
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const Known& entry) { return entry.caller == caller; });
  if (found != known.end()) {
    return found->asker;
  }
  Known& entry = known[next++ % known.size()];
  entry = {caller, FindAsker(caller)};
  return entry.asker;
}

// nccl2's groups ask for ops that they issued a moment ago, and wait for one only if it is not
// over: on a device it is not. A sandbox rank is told what it was told while it was recorded, so
// that it waits for the same; waiting for an event that is over takes no time. But for a loop that
// polls, which has to end.
bool IsPendingAtIssue(cudaEvent_t event) {
  constexpr int kPolls = 1000;
  thread_local cudaEvent_t last = nullptr;
  thread_local int polls = 0;
  if (!asks_at_issue.load(std::memory_order_relaxed) || WaitsUntilAsked() ||
      !MayBePending(Object(event)->recorded_after.load(std::memory_order_relaxed))) {
    return false;
  }
  polls = last == event ? polls + 1 : 0;
  last = event;
  return polls < kPolls;
}

// While recording no time passes. An event is then over: a loop that polls for it takes no time,
// nor does it in the replay. Except for the caching allocator, which would reserve too little.
cudaError_t Query(cudaEvent_t event, Asker asker) {
  const bool records = SessionMode() == channel::Mode::kRecord;
  if (asker == Asker::kCachingAllocator) {
    if (!MayBePending(Object(event)->recorded_after.load(std::memory_order_relaxed))) {
      return cudaSuccess;
    }
    if (records) {
      return Return(cudaErrorNotReady);
    }
  }
  if (asker == Asker::kInPassing && IsPendingAtIssue(event)) {
    return Return(cudaErrorNotReady);
  }
  if (records && asker == Asker::kProgram) {
    Count("event_query_taken_as_over");
  }
  return Request(EventRecord(RecordKind::kQueryEvent, event, nullptr)).status == 0
             ? cudaSuccess
             : Return(cudaErrorNotReady);
}

// Before the iterations that are replayed no time passes between events. On a device two of them
// differ by at least its resolution ("around 0.5 microseconds"), and programs divide by the
// difference: an autotuner launches a kernel for a tenth of a second by it, millions of times if an
// op took next to nothing.
int64_t AssumedNs(uint64_t start_op, uint64_t end_op) {
  constexpr int64_t kResolutionNs = 500;
  constexpr int64_t kShortOpNs = 20'000;
  const uint64_t ops_between = end_op > start_op ? end_op - start_op - 1 : 0;
  return std::max(kResolutionNs, static_cast<int64_t>(ops_between) * kShortOpNs);
}

}  // namespace

uint32_t NewEventId() {
  return next_event.fetch_add(1);
}

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  EnsureContext();
  auto* const object = new (std::nothrow) EventObject{NewEventId(), flags, {false}, {0}};
  if (object == nullptr) {
    return Return(cudaErrorMemoryAllocation);
  }
  *event = reinterpret_cast<cudaEvent_t>(object);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete Object(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  if (event == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  const bool external = (flags & cudaEventRecordExternal) != 0;
  if (RecordInCapture(event, stream, external)) {
    return cudaSuccess;
  }
  EventObject* const object = Object(event);
  object->recorded.store(true, std::memory_order_relaxed);
  object->recorded_after.store(LastIssuedOp(), std::memory_order_relaxed);
  IssueOp(stream, EventRecord(RecordKind::kEventRecord, event, stream));
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

// Waiting for an event that was never recorded does nothing, as on a real device.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  if (event == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  cudaError_t error = cudaSuccess;
  const bool external = (flags & cudaEventWaitExternal) != 0;
  if (WaitInCapture(stream, event, external, &error)) {
    return error == cudaSuccess ? error : Return(error);
  }
  if (WasRecorded(event)) {
    IssueOp(stream, EventRecord(RecordKind::kEventWait, event, stream));
  }
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (const cudaError_t error = CheckEvent(event); error != cudaSuccess) {
    return error;
  }
  if (!WasRecorded(event)) {
    return cudaSuccess;
  }
  return Query(event, AskerOf(__builtin_return_address(0)));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (const cudaError_t error = CheckEvent(event); error != cudaSuccess) {
    return error;
  }
  if (WasRecorded(event)) {
    Record record = {};
    record.kind = RecordKind::kSync;
    record.sync.kind = channel::SyncKind::kEvent;
    record.sync.event = Object(event)->id;
    NoteHostWait(Object(event)->recorded_after.load(std::memory_order_relaxed));
    Request(record);
  }
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (start == nullptr || end == nullptr || !WasRecorded(start) || !WasRecorded(end) ||
      ((Object(start)->flags | Object(end)->flags) & cudaEventDisableTiming) != 0) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  Record record = {};
  record.kind = RecordKind::kElapsed;
  record.elapsed.start_event = Object(start)->id;
  record.elapsed.end_event = Object(end)->id;
  const Reply reply = Request(record);
  if (reply.status == 1) {
    return Return(cudaErrorNotReady);
  }
  const int64_t elapsed =
      reply.value_ns == 0 && start != end
          ? AssumedNs(Object(start)->recorded_after, Object(end)->recorded_after)
          : reply.value_ns;
  *milliseconds = static_cast<float>(static_cast<double>(elapsed) * 1e-6);
  return cudaSuccess;
}
}  // extern "C"
}  // namespace prism::shim
