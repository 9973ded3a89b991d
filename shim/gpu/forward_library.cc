// Calls of cuFFT, cuSOLVER, cuSPARSE and those of cuBLAS and cuDNN that are one op of their own
// name (shim/virtual_device/library_calls.txt), by library_call.S. Their stream is queried from the
// real library; for cuFFT, which cannot be queried, it is intercepted when set.
#include <map>
#include <mutex>
#include <string_view>

#include <cuda_runtime_api.h>

#include "shim/gpu/forward.h"
#include "shim/virtual_device/blas_record.h"
#include "shim/virtual_device/library_call.h"

namespace prism::shim {
namespace {

struct PlanStreams {
  std::mutex mutex;
  std::map<int, cudaStream_t> by_plan;
};

PlanStreams& GetPlanStreams() {
  static auto* const streams = new PlanStreams();
  return *streams;
}

const char* StreamGetterOf(std::string_view name) {
  return name.starts_with("cublas")     ? "cublasGetStream_v2"
         : name.starts_with("cudnn")    ? "cudnnGetStream"
         : name.starts_with("cusolver") ? "cusolverDnGetStream"
                                        : "cusparseGetStream";
}

// Of the real device.
cudaStream_t StreamOf(HandleKind kind, std::string_view name, uint64_t handle) {
  if (kind == HandleKind::kNumber) {
    PlanStreams& streams = GetPlanStreams();
    const std::lock_guard<std::mutex> lock(streams.mutex);
    return streams.by_plan[static_cast<int>(handle)];
  }
  cudaStream_t stream = nullptr;
  const WithinReal within;
  using GetStream = int(void*, cudaStream_t*);
  reinterpret_cast<GetStream*>(FindReal(StreamGetterOf(name)))(reinterpret_cast<void*>(handle),
                                                               &stream);
  return stream;
}

void TellCall(LibraryCall call, const char* name, const uint64_t* registers) {
  if (call.action == LibraryAction::kRun) {
    EmitLibraryCall(name, TwinOf(StreamOf(call.handle, name, registers[0])));
  } else if (call.handle == HandleKind::kNumber) {
    PlanStreams& streams = GetPlanStreams();
    const std::lock_guard<std::mutex> lock(streams.mutex);
    streams.by_plan[static_cast<int>(registers[0])] = reinterpret_cast<cudaStream_t>(registers[1]);
  }
}

}  // namespace
}  // namespace prism::shim

extern "C" __attribute__((visibility("hidden"))) void* prism_device_enter_library_call(
    const char* name, uint32_t what, const uint64_t* registers) {
  if (!prism::shim::WithinReal::Is()) {
    prism::shim::TellCall(prism::shim::LibraryCallOf(what), name, registers);
  }
  void* const real = prism::shim::FindReal(name);
  prism::shim::WithinReal::Enter();
  return real;
}

extern "C" __attribute__((visibility("hidden"))) void prism_device_leave_library_call() {
  prism::shim::WithinReal::Leave();
}
