// Errors, versions and initialisation of the CUDA runtime.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "shim/observer/observer_loader.h"
#include "shim/session.h"
#include "shim/spawned_process.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/library_versions.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

// The texts of the real runtime for the errors that this device can return; programs match on them.
constexpr ErrorText kErrorTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorCudartUnloading, "cudaErrorCudartUnloading", "driver shutting down"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled",
     "peer access has not been enabled"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {cudaErrorGraphExecUpdateFailure, "cudaErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which violated constraints "
     "specific to instantiated graph update"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorText* FindText(cudaError_t error) {
  for (const ErrorText& text : kErrorTexts) {
    if (text.error == error) {
      return &text;
    }
  }
  return nullptr;
}

}  // namespace

cudaError_t Return(cudaError_t error) {
  if (error != cudaSuccess) {
    last_error = error;
  }
  return error;
}

int CurrentDevice() {
  return current_device;
}

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  return last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  const auto* const found = FindText(error);
  return found == nullptr ? "unrecognized error code" : found->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* const found = FindText(error);
  return found == nullptr ? "unrecognized error code" : found->text;
}

// The driver uses the same numbers for the errors that both have.
CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  *text = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CudaVersion();
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CudaVersion();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  // The first call of a program, by which libtorch, if the program uses it, is certainly loaded.
  EndIfSpawnedForOtherRank();
  LoadObserver();
  SpawnOnlyOwnProcess();
  *count = SessionConfig().device.device_count;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  EndIfSpawnedForOtherRank();
  if (device < 0 || device >= SessionConfig().device.device_count) {
    return Return(cudaErrorInvalidDevice);
  }
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned int /*device_flags*/, unsigned int /*flags*/) {
  return device < 0 || device >= SessionConfig().device.device_count
             ? Return(cudaErrorInvalidDevice)
             : cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  *flags = cudaDeviceScheduleAuto;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol,
                                             void** function,
                                             unsigned int version,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* status) {
  *function = FindDriverFunction(symbol, static_cast<int>(version));
  if (status != nullptr) {
    *status =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  }
  return *function == nullptr && status == nullptr ? Return(cudaErrorSymbolNotFound) : cudaSuccess;
}
}  // extern "C"
}  // namespace prism::shim
