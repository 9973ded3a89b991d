#include "shim/virtual_device/capture.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <set>
#include <utility>

#include "shim/issued_ops.h"
#include "shim/session.h"
#include "shim/virtual_device/graph.h"
#include "shim/virtual_device/runtime_state.h"
#include "shim/virtual_device/stream.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;

using Frontier = std::vector<GraphStep*>;  // what the next step of a stream depends on

struct Capture {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  const void* thread = nullptr;  // identity of the thread that began it
  bool spoiled = false;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::map<cudaStream_t, Frontier> streams;
  std::map<uint32_t, Frontier> events;
};

struct Captures {
  std::mutex mutex;
  std::atomic<int> count{0};  // captures in progress: usually none, and then no lock is taken
  unsigned long long next_id = 1;
  std::vector<std::unique_ptr<Capture>> active;
};

Captures& Get() {
  alignas(Captures) static std::byte storage[sizeof(Captures)];
  static Captures* const captures = new (storage) Captures();
  return *captures;
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

const void* ThisThread() {
  return &thread_mode;
}

Capture* FindLocked(cudaStream_t stream) {
  for (const auto& capture : Get().active) {
    if (capture->streams.contains(stream)) {
      return capture.get();
    }
  }
  return nullptr;
}

Capture* FindLocked(unsigned long long id) {
  for (const auto& capture : Get().active) {
    if (capture->id == id) {
      return capture.get();
    }
  }
  return nullptr;
}

GraphStep* AddLocked(Capture* capture, cudaStream_t stream, GraphStep step) {
  Frontier& frontier = capture->streams[stream];
  step.context = ThreadContext();
  step.dependencies = frontier;
  auto& steps = capture->graph->body->steps;
  steps.push_back(std::make_unique<GraphStep>(std::move(step)));
  if (steps.back()->IsNode()) {
    frontier = {steps.back().get()};
  }
  return steps.back().get();
}

bool KeepLocked(Capture* capture,
                cudaStream_t stream,
                cudaGraphNodeType type,
                std::function<void(const GraphRun&)> run) {
  GraphStep step;
  step.type = type;
  step.run = std::move(run);
  AddLocked(capture, stream, std::move(step));
  return true;
}

// An event of the capture, recorded or waited for: a step without a node.
void AddEventLocked(Capture* capture, cudaStream_t stream, RecordKind kind, uint32_t event) {
  GraphStep step;
  step.run = [stream, kind, event](const GraphRun& run) {
    Record record = {};
    record.kind = kind;
    record.stream = StreamIndex(run.Stream(stream));
    record.event.event = run.Event(event);
    Emit(record);
  };
  AddLocked(capture, stream, std::move(step));
}

void Merge(Frontier* into, const Frontier& from) {
  for (GraphStep* step : from) {
    if (std::find(into->begin(), into->end(), step) == into->end()) {
      into->push_back(step);
    }
  }
}

// Whether everything issued leads to what the first stream would do next.
bool AllJoined(const Capture& capture) {
  std::set<GraphStep*> reached;
  Frontier open = capture.streams.at(capture.graph->body->origin);
  while (!open.empty()) {
    GraphStep* const step = open.back();
    open.pop_back();
    if (reached.insert(step).second) {
      open.insert(open.end(), step->dependencies.begin(), step->dependencies.end());
    }
  }
  for (const auto& step : capture.graph->body->steps) {
    if (step->IsNode() && !reached.contains(step.get())) {
      return false;
    }
  }
  return true;
}

cudaError_t Begin(cudaStream_t stream, cudaStreamCaptureMode mode) {
  // The legacy default stream cannot be captured; a thread's own can.
  if (StreamIndex(stream) == 0) {
    return cudaErrorStreamCaptureUnsupported;
  }
  Captures& captures = Get();
  const std::lock_guard<std::mutex> lock(captures.mutex);
  if (FindLocked(stream) != nullptr) {
    return cudaErrorIllegalState;
  }
  auto capture = std::make_unique<Capture>();
  capture->id = captures.next_id++;
  capture->mode = mode;
  capture->thread = ThisThread();
  capture->graph->body->origin = stream;
  capture->streams[stream];
  captures.active.push_back(std::move(capture));
  captures.count.store(static_cast<int>(captures.active.size()), std::memory_order_release);
  return cudaSuccess;
}

cudaError_t End(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  Captures& captures = Get();
  const std::lock_guard<std::mutex> lock(captures.mutex);
  Capture* const found = FindLocked(stream);
  if (found == nullptr) {
    return cudaErrorIllegalState;
  }
  if (found->graph->body->origin != stream) {
    return cudaErrorStreamCaptureUnmatched;
  }
  if (found->mode != cudaStreamCaptureModeRelaxed && found->thread != ThisThread()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const auto place = std::find_if(captures.active.begin(), captures.active.end(),
                                  [&](const auto& capture) { return capture.get() == found; });
  const std::unique_ptr<Capture> capture = std::move(*place);
  captures.active.erase(place);
  captures.count.store(static_cast<int>(captures.active.size()), std::memory_order_release);
  if (capture->spoiled) {
    return cudaErrorStreamCaptureInvalidated;
  }
  if (!AllJoined(*capture)) {
    return cudaErrorStreamCaptureUnjoined;
  }
  *graph = ToHandle(capture->graph.release());
  return cudaSuccess;
}

}  // namespace

cudaStream_t GraphRun::Stream(cudaStream_t captured) const {
  if (captured == origin) {
    return target;
  }
  const auto found = streams->find(captured);
  return found == streams->end() ? captured : found->second;
}

uint32_t GraphRun::Event(uint32_t captured) const {
  const auto found = events->find(captured);
  return found == events->end() ? captured : found->second;
}

bool Keep(cudaStream_t stream, cudaGraphNodeType type, std::function<void(const GraphRun&)> run) {
  if (!IsCapturing()) {
    return false;
  }
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Capture* const capture = FindLocked(stream);
  return capture != nullptr && KeepLocked(capture, stream, type, std::move(run));
}

bool KeepOp(cudaStream_t stream, cudaGraphNodeType type, std::function<void(const GraphRun&)> run) {
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Capture* const capture = FindLocked(stream);
  if (capture == nullptr) {
    return false;
  }
  NoteCapturedOp(capture->graph->body->ops++);
  return KeepLocked(capture, stream, type, std::move(run));
}

void KeepRange(std::function<void()> emit) {
  if (!IsCapturing()) {
    return;
  }
  const std::lock_guard<std::mutex> lock(Get().mutex);
  for (const auto& capture : Get().active) {
    if (capture->thread == ThisThread()) {
      GraphStep step;
      step.is_range = true;
      step.run = [emit = std::move(emit)](const GraphRun& /*run*/) { emit(); };
      AddLocked(capture.get(), capture->graph->body->origin, std::move(step));
      return;
    }
  }
}

bool IsCapturing() {
  return Get().count.load(std::memory_order_acquire) != 0;
}

bool IsCaptured(cudaStream_t stream) {
  if (!IsCapturing()) {
    return false;
  }
  const std::lock_guard<std::mutex> lock(Get().mutex);
  return FindLocked(stream) != nullptr;
}

bool RecordInCapture(cudaEvent_t event, cudaStream_t stream, bool external) {
  auto* const object = reinterpret_cast<EventObject*>(event);
  if (external || !IsCapturing()) {
    object->capture.store(0, std::memory_order_relaxed);
    return false;
  }
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Capture* const capture = FindLocked(stream);
  object->capture.store(capture == nullptr ? 0 : capture->id, std::memory_order_relaxed);
  if (capture == nullptr) {
    return false;
  }
  capture->events[object->id] = capture->streams[stream];
  capture->graph->body->events[object->id];
  AddEventLocked(capture, stream, RecordKind::kEventRecord, object->id);
  return true;
}

bool WaitInCapture(cudaStream_t stream, cudaEvent_t event, bool external, cudaError_t* error) {
  const auto* const object = reinterpret_cast<const EventObject*>(event);
  *error = cudaSuccess;
  const unsigned long long id = object->capture.load(std::memory_order_relaxed);
  if (external || (!IsCapturing() && id == 0)) {
    return false;
  }
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Capture* const of_event = id == 0 ? nullptr : FindLocked(id);
  Capture* const of_stream = FindLocked(stream);
  if (of_event == nullptr) {
    // An event of a finished capture means nothing outside of it.
    if (of_stream != nullptr && object->recorded.load(std::memory_order_relaxed)) {
      of_stream->spoiled = true;
      *error = cudaErrorStreamCaptureIsolation;
    }
    return id != 0 || of_stream != nullptr;
  }
  if (of_stream != nullptr && of_stream != of_event) {
    of_stream->spoiled = of_event->spoiled = true;
    *error = cudaErrorStreamCaptureMerge;
    return true;
  }
  Merge(&of_event->streams[stream], of_event->events[object->id]);
  if (stream != of_event->graph->body->origin) {
    of_event->graph->body->streams[stream];
  }
  AddEventLocked(of_event, stream, RecordKind::kEventWait, object->id);
  return true;
}

cudaError_t CheckWait(cudaStream_t stream) {
  if (!IsCapturing()) {
    return cudaSuccess;
  }
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Capture* const capture = FindLocked(stream);
  if (capture == nullptr) {
    return cudaSuccess;
  }
  capture->spoiled = true;
  return Return(cudaErrorStreamCaptureUnsupported);
}

cudaError_t CheckWaitForAll() {
  if (!IsCapturing()) {
    return cudaSuccess;
  }
  const std::lock_guard<std::mutex> lock(Get().mutex);
  for (const auto& capture : Get().active) {
    capture->spoiled = true;
  }
  return Get().active.empty() ? cudaSuccess : Return(cudaErrorStreamCaptureUnsupported);
}

// The rules of cudaThreadExchangeStreamCaptureMode.
cudaError_t CheckUnsafeCall() {
  if (!IsCapturing() || thread_mode == cudaStreamCaptureModeRelaxed) {
    return cudaSuccess;
  }
  const std::lock_guard<std::mutex> lock(Get().mutex);
  bool forbidden = false;
  for (const auto& capture : Get().active) {
    const bool mine = capture->thread == ThisThread();
    const bool concerns = mine ? capture->mode != cudaStreamCaptureModeRelaxed
                               : capture->mode == cudaStreamCaptureModeGlobal &&
                                     thread_mode == cudaStreamCaptureModeGlobal;
    capture->spoiled |= concerns;
    forbidden |= concerns;
  }
  return forbidden ? Return(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const cudaError_t error = Begin(stream, mode);
  return error == cudaSuccess ? error : Return(error);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const cudaError_t error = End(stream, graph);
  return error == cudaSuccess ? error : Return(error);
}

// older_calls.cc has the other forms.
decltype(cudaStreamGetCaptureInfo) cudaStreamGetCaptureInfo_v3;

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo_v3(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream,
                                        cudaStreamCaptureStatus* status,
                                        unsigned long long* id,
                                        cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies,
                                        const cudaGraphEdgeData** edges,
                                        size_t* dependency_count) {
  const bool idle = !IsCapturing();
  const std::lock_guard<std::mutex> lock(Get().mutex);
  Capture* const capture = idle ? nullptr : FindLocked(stream);
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->spoiled ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  if (id != nullptr) {
    *id = capture == nullptr ? 0 : capture->id;
  }
  if (graph != nullptr) {
    *graph = capture == nullptr ? nullptr : ToHandle(capture->graph.get());
  }
  if (edges != nullptr) {
    *edges = nullptr;
  }
  // Steps are the handles of nodes; a stream's frontier stays where it is until its next op.
  Frontier* const frontier = capture == nullptr ? nullptr : &capture->streams.at(stream);
  if (dependencies != nullptr) {
    *dependencies =
        frontier == nullptr ? nullptr : reinterpret_cast<cudaGraphNode_t*>(frontier->data());
  }
  if (dependency_count != nullptr) {
    *dependency_count = frontier == nullptr ? 0 : frontier->size();
  }
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
}  // extern "C"
}  // namespace prism::shim
