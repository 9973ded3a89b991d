// The CUDA runtime's calls that issue, order or own work.
#include <cuda_runtime_api.h>

#include "shim/gpu/driver_calls.h"
#include "shim/gpu/forward.h"
#include "shim/observer/observer_loader.h"
#include "shim/spawned_process.h"
#include "shim/virtual_device/nvcc_calls.h"

PRISM_RECORD(__cudaRegisterFunction);
PRISM_RECORD(__cudaRegisterVar);
PRISM_CREATE(__cudaGetKernel);
PRISM_RECORD(__cudaLaunchKernel);
PRISM_RECORD(cudaLaunchKernel);
PRISM_RECORD(cudaLaunchCooperativeKernel);

PRISM_RECORD(cudaFree);
PRISM_RECORD(cudaFreeAsync);
PRISM_RECORD(cudaMemcpy);
PRISM_RECORD(cudaMemcpyAsync);
PRISM_RECORD(cudaMemcpyPeer);
PRISM_RECORD(cudaMemcpyPeerAsync);
PRISM_RECORD(cudaMemcpy2DAsync);
PRISM_RECORD(cudaMemcpyToSymbol);
PRISM_RECORD(cudaMemset);
PRISM_RECORD(cudaMemsetAsync);

PRISM_CREATE(cudaStreamCreate);
PRISM_CREATE(cudaStreamCreateWithFlags);
PRISM_CREATE(cudaStreamCreateWithPriority);
PRISM_DESTROY(cudaStreamDestroy);
PRISM_RECORD(cudaStreamWaitEvent);
PRISM_RECORD(cudaStreamSynchronize);
PRISM_RECORD(cudaDeviceSynchronize);

PRISM_CREATE(cudaEventCreate);
PRISM_CREATE(cudaEventCreateWithFlags);
PRISM_DESTROY(cudaEventDestroy);
PRISM_RECORD(cudaEventRecord);
PRISM_RECORD(cudaEventRecordWithFlags);
PRISM_RECORD(cudaEventQuery);
PRISM_RECORD(cudaEventSynchronize);
PRISM_RECORD(cudaEventElapsedTime);

PRISM_RECORD(cudaStreamBeginCapture);
PRISM_CREATE(cudaGraphInstantiate);
PRISM_CREATE(cudaGraphInstantiateWithFlags);
PRISM_CREATE(cudaGraphInstantiateWithParams);
PRISM_RECORD(cudaGraphExecUpdate);
PRISM_RECORD(cudaGraphLaunch);
PRISM_DESTROY(cudaGraphExecDestroy);
PRISM_DESTROY(cudaGraphDestroy);

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

PRISM_INTERCEPT(cudaStreamEndCapture, prism::shim::EndCapture);
PRISM_INTERCEPT(cudaStreamQuery, prism::shim::StreamQuery);
PRISM_INTERCEPT(cudaLaunchKernelExC, prism::shim::LaunchKernelExC);
PRISM_INTERCEPT(cudaMalloc, prism::shim::Malloc);
PRISM_INTERCEPT(cudaMallocAsync, prism::shim::MallocAsync);
PRISM_INTERCEPT(cudaMallocFromPoolAsync, prism::shim::MallocFromPoolAsync);
PRISM_INTERCEPT(cudaThreadExchangeStreamCaptureMode, prism::shim::ExchangeCaptureMode);
PRISM_INTERCEPT(cudaGetDriverEntryPointByVersion, prism::shim::GetDriverEntryPoint);
PRISM_INTERCEPT(cudaGetDeviceCount, prism::shim::GetDeviceCount);
