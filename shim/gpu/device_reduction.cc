#include "shim/gpu/device_reduction.h"

#include <algorithm>
#include <array>
#include <mutex>

#include <cuda_runtime_api.h>

#include "graph/base/divide.h"
#include "shim/gpu/driver.h"
#include "shim/gpu/reduction_logic.h"
#include "shim/gpu/relaxed_capture.h"

// The fat binary of reduction_kernels.cu, included by reduction_image.S.
extern "C" const unsigned char prism_reduction_image[];

namespace prism::shim {
namespace {

class DeviceReduction {
 public:
  static DeviceReduction& Get() {
    static DeviceReduction* const reduction = new DeviceReduction();
    return *reduction;
  }

  bool Reduce(const ReductionInput& input, ReductionTask task, size_t bytes, void* out) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const WithinReal within;
    const RelaxedCapture relaxed;
    const size_t stride = RoundUp(bytes, kAlignment);
    const bool reduced = Prepare(stride * (input.contributions.size() + 1)) &&
                         Run(input, task, {bytes, stride}, out);
    usable_ = usable_ && reduced;
    return reduced;
  }

 private:
  static constexpr size_t kAlignment = 256;
  static constexpr uint64_t kThreads = 256;
  static constexpr uint64_t kMaxBlocks = 256;

  struct Extent {
    size_t bytes;
    size_t stride;
  };

  bool Load() {
    CUmodule module = nullptr;
    loaded_ = LoadDriver(RealDriver(), &driver_) == nullptr &&
              PRISM_FIND_REAL(cudaStreamCreateWithFlags)(&stream_, cudaStreamNonBlocking) ==
                  cudaSuccess &&
              driver_.load_module(&module, prism_reduction_image) == CUDA_SUCCESS &&
              driver_.get_function(&kernel_, module, "prism_reduce") == CUDA_SUCCESS;
    return loaded_;
  }

  // Room for contributions and the result. A device that has failed once is not tried again.
  bool Prepare(size_t bytes) {
    if (!usable_ || !(loaded_ || Load())) {
      return false;
    }
    if (bytes > room_bytes_) {
      void* room = nullptr;
      if (PRISM_FIND_REAL(cudaMalloc)(&room, bytes) != cudaSuccess) {
        return false;
      }
      static_cast<void>(PRISM_FIND_REAL(cudaFree)(room_));
      room_ = static_cast<std::byte*>(room);
      room_bytes_ = bytes;
    }
    return true;
  }

  bool Run(const ReductionInput& input, ReductionTask task, Extent extent, void* out) {
    auto* const copy = PRISM_FIND_REAL(cudaMemcpyAsync);
    std::byte* at = room_;
    for (const std::byte* const contribution : input.contributions) {
      if (copy(at, contribution, extent.bytes, cudaMemcpyHostToDevice, stream_) != cudaSuccess) {
        return false;
      }
      at += extent.stride;
    }
    task.contributions = room_;
    task.out = at;
    task.stride = extent.stride;
    const uint64_t blocks = std::min(DivideUp<uint64_t>(task.count, kThreads), kMaxBlocks);
    std::array<void*, 1> arguments = {&task};
    return driver_.launch(kernel_, static_cast<uint32_t>(blocks), 1, 1, kThreads, 1, 1, 0, stream_,
                          arguments.data(), nullptr) == CUDA_SUCCESS &&
           copy(out, at, extent.bytes, cudaMemcpyDeviceToHost, stream_) == cudaSuccess &&
           PRISM_FIND_REAL(cudaStreamSynchronize)(stream_) == cudaSuccess;
  }

  std::mutex mutex_;
  Driver driver_;
  bool loaded_ = false;
  bool usable_ = true;
  CUfunction kernel_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::byte* room_ = nullptr;
  size_t room_bytes_ = 0;
};

}  // namespace

bool ReduceOnDevice(
    const ReductionInput& input, Element element, Reduction reduction, size_t count, void* out) {
  ReductionTask task = {};
  task.count = count;
  task.members = {static_cast<int32_t>(input.contributions.size()), input.absent};
  task.reduction = reduction;
  task.element = element;
  return DeviceReduction::Get().Reduce(input, task, count * ElementBytes(element), out);
}

}  // namespace prism::shim
