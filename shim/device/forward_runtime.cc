// The CUDA runtime's calls that issue, order or own work.
#include <cuda_runtime_api.h>

#include "shim/cuda/nvcc_calls.h"
#include "shim/device/driver_calls.h"
#include "shim/device/forward.h"
#include "shim/observer/observer_loader.h"
#include "shim/spawned_process.h"

PRISM_TOLD(__cudaRegisterFunction);
PRISM_TOLD(__cudaRegisterVar);
PRISM_MADE(__cudaGetKernel);
PRISM_TOLD(__cudaLaunchKernel);
PRISM_TOLD(cudaLaunchKernel);
PRISM_TOLD(cudaLaunchCooperativeKernel);

PRISM_TOLD(cudaFree);
PRISM_TOLD(cudaFreeAsync);
PRISM_TOLD(cudaMemcpy);
PRISM_TOLD(cudaMemcpyAsync);
PRISM_TOLD(cudaMemcpyPeer);
PRISM_TOLD(cudaMemcpyPeerAsync);
PRISM_TOLD(cudaMemcpy2DAsync);
PRISM_TOLD(cudaMemcpyToSymbol);
PRISM_TOLD(cudaMemset);
PRISM_TOLD(cudaMemsetAsync);

PRISM_MADE(cudaStreamCreate);
PRISM_MADE(cudaStreamCreateWithFlags);
PRISM_MADE(cudaStreamCreateWithPriority);
PRISM_ENDED(cudaStreamDestroy);
PRISM_TOLD(cudaStreamWaitEvent);
PRISM_TOLD(cudaStreamSynchronize);
PRISM_TOLD(cudaDeviceSynchronize);

PRISM_MADE(cudaEventCreate);
PRISM_MADE(cudaEventCreateWithFlags);
PRISM_ENDED(cudaEventDestroy);
PRISM_TOLD(cudaEventRecord);
PRISM_TOLD(cudaEventRecordWithFlags);
PRISM_TOLD(cudaEventQuery);
PRISM_TOLD(cudaEventSynchronize);
PRISM_TOLD(cudaEventElapsedTime);

PRISM_TOLD(cudaStreamBeginCapture);
PRISM_MADE(cudaGraphInstantiate);
PRISM_MADE(cudaGraphInstantiateWithFlags);
PRISM_MADE(cudaGraphInstantiateWithParams);
PRISM_TOLD(cudaGraphExecUpdate);
PRISM_TOLD(cudaGraphLaunch);
PRISM_ENDED(cudaGraphExecDestroy);
PRISM_ENDED(cudaGraphDestroy);

PRISM_CALL(cudaStreamEndCapture);
PRISM_CALL(cudaStreamQuery);
PRISM_CALL(cudaLaunchKernelExC);
PRISM_CALL(cudaMalloc);
PRISM_CALL(cudaMallocAsync);
PRISM_CALL(cudaMallocFromPoolAsync);
PRISM_CALL(cudaGetDeviceCount);
PRISM_CALL(cudaGetDriverEntryPointByVersion);
PRISM_CALL(cudaThreadExchangeStreamCaptureMode);

namespace prism::shim {
namespace {

cudaError_t LaunchKernelExC(const cudaLaunchConfig_t* config,
                            const void* function,
                            void** arguments) {
  if (!WithinReal::Is()) {
    cudaLaunchConfig_t twin = *config;
    twin.stream = TwinOf(config->stream);
    prism_twin_cudaLaunchKernelExC(&twin, function, arguments);
  }
  return PRISM_REAL(cudaLaunchKernelExC)(config, function, arguments);
}

// An allocation is reported once the real device has made it, or refused it for lack of memory.
template <typename Twin>
cudaError_t Allocated(cudaError_t result, void** pointer, Twin tell) {
  if (!WithinReal::Is() && (result == cudaSuccess || result == cudaErrorMemoryAllocation)) {
    TellAllocation(result == cudaSuccess ? *pointer : nullptr);
    void* same = nullptr;
    tell(&same);
  }
  return result;
}

cudaError_t Malloc(void** pointer, size_t bytes) {
  return Allocated(PRISM_REAL(cudaMalloc)(pointer, bytes), pointer,
                   [=](void** same) { prism_twin_cudaMalloc(same, bytes); });
}

cudaError_t MallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return Allocated(PRISM_REAL(cudaMallocAsync)(pointer, bytes, stream), pointer,
                   [=](void** same) { prism_twin_cudaMalloc(same, bytes); });
}

cudaError_t MallocFromPoolAsync(void** pointer,
                                size_t bytes,
                                cudaMemPool_t pool,
                                cudaStream_t stream) {
  return Allocated(PRISM_REAL(cudaMallocFromPoolAsync)(pointer, bytes, pool, stream), pointer,
                   [=](void** same) { prism_twin_cudaMalloc(same, bytes); });
}

// A capture has ended whether or not it produced a graph.
cudaError_t EndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const cudaError_t result = PRISM_REAL(cudaStreamEndCapture)(stream, graph);
  if (!WithinReal::Is()) {
    cudaGraph_t twin = nullptr;
    prism_twin_cudaStreamEndCapture(TwinOf(stream), &twin);
    if (result == cudaSuccess) {
      PairHandles(*graph, twin);
    } else if (twin != nullptr) {
      prism_twin_cudaGraphDestroy(twin);
    }
  }
  return result;
}

// A stream that is done counts as waited for, as on the virtual device; otherwise nothing is
// recorded.
cudaError_t StreamQuery(cudaStream_t stream) {
  const cudaError_t result = PRISM_REAL(cudaStreamQuery)(stream);
  if (!WithinReal::Is() && result == cudaSuccess) {
    CallTwin(prism_twin_cudaStreamQuery, TwinOf(stream));
  }
  return result;
}

// The location that the call reads and writes is separate for each device.
cudaError_t ExchangeCaptureMode(cudaStreamCaptureMode* mode) {
  if (!WithinReal::Is()) {
    cudaStreamCaptureMode same = *mode;
    prism_twin_cudaThreadExchangeStreamCaptureMode(&same);
  }
  return PRISM_REAL(cudaThreadExchangeStreamCaptureMode)(mode);
}

cudaError_t GetDriverEntryPoint(const char* symbol,
                                void** function,
                                unsigned int version,
                                unsigned long long flags,
                                cudaDriverEntryPointQueryResult* status) {
  const bool within = WithinReal::Is();
  const cudaError_t result =
      PRISM_REAL(cudaGetDriverEntryPointByVersion)(symbol, function, version, flags, status);
  if (!within && result == cudaSuccess) {
    *function = SeenDriverCall(symbol, static_cast<int>(version), *function);
  }
  return result;
}

cudaError_t GetDeviceCount(int* count) {
  // The first call of a program, by which libtorch, if the program uses it, is certainly loaded.
  EndIfSpawnedForOtherRank();
  LoadObserver();
  return PRISM_REAL(cudaGetDeviceCount)(count);
}

}  // namespace
}  // namespace prism::shim

PRISM_SEEN(cudaStreamEndCapture, prism::shim::EndCapture);
PRISM_SEEN(cudaStreamQuery, prism::shim::StreamQuery);
PRISM_SEEN(cudaLaunchKernelExC, prism::shim::LaunchKernelExC);
PRISM_SEEN(cudaMalloc, prism::shim::Malloc);
PRISM_SEEN(cudaMallocAsync, prism::shim::MallocAsync);
PRISM_SEEN(cudaMallocFromPoolAsync, prism::shim::MallocFromPoolAsync);
PRISM_SEEN(cudaThreadExchangeStreamCaptureMode, prism::shim::ExchangeCaptureMode);
PRISM_SEEN(cudaGetDriverEntryPointByVersion, prism::shim::GetDriverEntryPoint);
PRISM_SEEN(cudaGetDeviceCount, prism::shim::GetDeviceCount);
