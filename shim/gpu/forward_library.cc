// Calls of cuFFT, cuSOLVER, cuSPARSE, cuBLAS and cuDNN that are one op
// (shim/virtual_device/library_calls.txt), by library_call.S. Their stream is queried from the
// real library; for cuFFT, which cannot be queried, it is intercepted when set.
#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include <cuda_runtime_api.h>

#include "shim/gpu/forward.h"
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

// Asks a library for a handle's stream.
using GetStream = int(void*, cudaStream_t*);

GetStream* StreamGetterOf(std::string_view name) {
  static constexpr std::pair<std::string_view, const char*> kGetters[] = {
      {"cublas", "cublasGetStream_v2"},
      {"cudnn", "cudnnGetStream"},
      {"cusolver", "cusolverDnGetStream"},
      {"cusparse", "cusparseGetStream"}};
  static std::atomic<void*> found[std::size(kGetters)];
  const auto* const getter = std::ranges::find_if(
      kGetters, [name](const auto& each) { return name.starts_with(each.first); });
  return reinterpret_cast<GetStream*>(FindRealOnce(getter->second, &found[getter - kGetters]));
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
  StreamGetterOf(name)(reinterpret_cast<void*>(handle), &stream);
  return stream;
}

void TellCall(LibraryCall call, const char* name, const Arguments& arguments) {
  if (Issues(call.action)) {
    IssueCall(call, name, arguments, TwinOf(StreamOf(call.handle, name, arguments[0])), false);
  } else if (call.handle == HandleKind::kNumber) {
    PlanStreams& streams = GetPlanStreams();
    const std::lock_guard<std::mutex> lock(streams.mutex);
    streams.by_plan[static_cast<int>(arguments[0])] = reinterpret_cast<cudaStream_t>(arguments[1]);
  }
}

}  // namespace
}  // namespace prism::shim

extern "C" __attribute__((visibility("hidden"))) void* prism_device_enter_library_call(
    const char* name,
    uint64_t what,
    const uint64_t* registers,
    const uint64_t* stack,
    std::atomic<void*>* real) {
  if (!prism::shim::WithinReal::Is()) {
    prism::shim::TellCall(prism::shim::LibraryCallOf(what), name,
                          prism::shim::Arguments(registers, stack));
  }
  void* const found = prism::shim::FindRealOnce(name, real);
  prism::shim::WithinReal::Enter();
  return found;
}

extern "C" __attribute__((visibility("hidden"))) void prism_device_leave_library_call() {
  prism::shim::WithinReal::Leave();
}
