// Stream capture: what is issued on a stream under capture becomes a step of a graph instead of an
// op; it becomes an op at each launch of that graph (graph.cc). Ops come here from
// shim/virtual_device/issue.h; other work of a stream calls Keep. Thread-safe.
//
// As on a real device: another stream joins by waiting for an event that was recorded in the
// capture, all streams must have joined the first again at the end, and a call that would wait for
// captured work fails with the real runtime's error and invalidates the capture.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

namespace prism::shim {

// One launch: what replaces the streams and events of the capture.
struct GraphRun {
  cudaStream_t origin = nullptr;  // first stream of the capture
  cudaStream_t target = nullptr;  // the stream of the launch, which replaces it
  const std::map<cudaStream_t, cudaStream_t>* streams = nullptr;
  const std::map<uint32_t, uint32_t>* events = nullptr;  // by id; all others are unchanged

  [[nodiscard]] cudaStream_t Stream(cudaStream_t captured) const;
  [[nodiscard]] uint32_t Event(uint32_t captured) const;
};

// One thing to do at a launch. Events that order streams inside a capture, and ranges of the
// framework's, are steps, but no nodes of the graph that a program sees.
struct GraphStep {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  uint32_t context = 0;  // the framework op at the capture
  std::function<void(const GraphRun&)> run;
  bool is_range = false;  // the host pays for the launch with the first step that is none
  std::vector<GraphStep*> dependencies;

  [[nodiscard]] bool IsNode() const { return type != cudaGraphNodeTypeEmpty; }
};

// Shared by a graph and what was instantiated from it.
struct GraphBody {
  cudaStream_t origin = nullptr;
  std::vector<std::unique_ptr<GraphStep>> steps;
  std::map<cudaStream_t, cudaStream_t> streams;  // keys only: the joined streams
  std::map<uint32_t, uint32_t> events;           // keys only: recorded inside
  uint32_t ops = 0;                              // steps that KeepOp added
};

// Keeps a step if the stream is captured; false if it is not.
bool Keep(cudaStream_t stream, cudaGraphNodeType type, std::function<void(const GraphRun&)> run);

// The same for a step that becomes an op.
bool KeepOp(cudaStream_t stream, cudaGraphNodeType type, std::function<void(const GraphRun&)> run);

// Where this thread has begun a capture: `emit` is run at each launch, between the ops that it came
// between. So an optimizer's step in a graph is one whenever the graph is launched.
void KeepRange(std::function<void()> emit);

bool IsCaptured(cudaStream_t stream);

// Whether any stream is captured: usually none is, and then no call here takes a lock.
bool IsCapturing();

// cudaEventRecord and cudaStreamWaitEvent if a capture is involved; false if none is. `error` is
// the call's result when true is returned.
bool RecordInCapture(cudaEvent_t event, cudaStream_t stream, bool external);
bool WaitInCapture(cudaStream_t stream, cudaEvent_t event, bool external, cudaError_t* error);

// The error of a call that waits for a stream or for everything (nullptr stream of `all`), and of
// one that the capture mode of this thread forbids during a capture (cudaMalloc, cudaEventQuery,
// ...). cudaSuccess if the call may proceed.
cudaError_t CheckWait(cudaStream_t stream);
cudaError_t CheckWaitForAll();
cudaError_t CheckUnsafeCall();

}  // namespace prism::shim
