// A CUDA driver whose GPU is the CPU: the calls that holds need, under their real names, with one
// thread per stream and one per block of a hold. Loads the real image, looks up kernels in it, and
// runs the CPU build of hold_logic.h instead. Streams keep their order; capture keeps what is
// enqueued for launches of the graph.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <cuda.h>

#include "shim/gpu/hold_logic.h"
#include "shim/gpu/host_machine.h"
#include "tests/support/work_queue.h"

namespace {

using prism::testing::WorkQueue;
using Work = WorkQueue::Work;

constexpr uint32_t kFatBinaryMagic = 0xBA55ED50;
constexpr size_t kQueueMost = 256;

class Stream {
 public:
  void Add(Work work) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (capture_ != nullptr) {
        capture_->push_back(std::move(work));
        return;
      }
    }
    queue_.Add(std::move(work));
  }

  void Wait() { queue_.Wait(); }

  void Capture(std::vector<Work>* into) {
    const std::lock_guard<std::mutex> lock(mutex_);
    capture_ = into;
  }

  std::vector<Work>* capture() const { return capture_; }

 private:
  std::mutex mutex_;
  std::vector<Work>* capture_ = nullptr;
  WorkQueue queue_{kQueueMost};  // as a real queue
};

struct Module {
  std::string_view image;
};

struct Function {
  std::string name;
};

Stream* Of(CUstream stream) {
  return reinterpret_cast<Stream*>(stream);
}

template <typename T>
T* At(CUdeviceptr address) {
  return reinterpret_cast<T*>(address);
}

template <typename T>
T Argument(void** arguments, int index) {
  T value;
  std::memcpy(&value, arguments[index], sizeof(value));
  return value;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int /*flags*/) {
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice /*device*/) {
  std::strncpy(name, "fake GPU", static_cast<size_t>(length));
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const auto* const bytes = static_cast<const char*>(image);
  uint32_t magic = 0;
  uint64_t size = 0;
  std::memcpy(&magic, bytes, sizeof(magic));
  std::memcpy(&size, bytes + 8, sizeof(size));
  if (magic != kFatBinaryMagic) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *module = reinterpret_cast<CUmodule>(new Module{{bytes, size}});
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (reinterpret_cast<Module*>(module)->image.find(name) == std::string_view::npos) {
    return CUDA_ERROR_NOT_FOUND;
  }
  *function = reinterpret_cast<CUfunction>(new Function{name});
  return CUDA_SUCCESS;
}

// Of the last launch of a hold.
prism::shim::HoldTraffic last_traffic = {};
const prism::shim::HoldTraffic* fake_last_traffic() {
  return &last_traffic;
}

CUresult cuLaunchKernel(CUfunction function,
                        unsigned int grid_x,
                        unsigned int /*grid_y*/,
                        unsigned int /*grid_z*/,
                        unsigned int block_x,
                        unsigned int /*block_y*/,
                        unsigned int /*block_z*/,
                        unsigned int /*shared_bytes*/,
                        CUstream stream,
                        void** arguments,
                        void** /*extra*/) {
  if (!reinterpret_cast<Function*>(function)->name.starts_with("prism_hold_") ||
      block_x != prism::shim::kHoldThreads) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto* const board = At<prism::shim::HoldBoard>(Argument<CUdeviceptr>(arguments, 0));
  auto* const streams = At<prism::shim::HoldStream>(Argument<CUdeviceptr>(arguments, 1));
  const auto hold_stream = Argument<uint32_t>(arguments, 2);
  last_traffic = Argument<prism::shim::HoldTraffic>(arguments, 3);
  Of(stream)->Add([=] {
    std::vector<std::thread> blocks;
    for (unsigned int block = 0; block < grid_x; ++block) {
      blocks.emplace_back([=] {
        prism::shim::HostMachine machine;
        prism::shim::HoldBlock(machine, board, streams, hold_stream, grid_x);
      });
    }
    for (std::thread& block : blocks) {
      block.join();
    }
  });
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned int flags) {
  *memory = std::calloc(1, bytes);
  return (flags & CU_MEMHOSTALLOC_DEVICEMAP) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned int /*flags*/) {
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* device, size_t bytes) {
  *device = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
  std::memset(At<void>(*device), 0xA5, bytes);  // like real memory, which nobody has cleared
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8(CUdeviceptr device, unsigned char value, size_t bytes) {
  std::memset(At<void>(device), value, bytes);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned int /*flags*/) {
  *stream = reinterpret_cast<CUstream>(new Stream());
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  delete Of(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  Of(stream)->Wait();
  return CUDA_SUCCESS;
}

CUresult cuStreamWriteValue64(CUstream stream,
                              CUdeviceptr address,
                              cuuint64_t value,
                              unsigned int /*flags*/) {
  Of(stream)->Add([=] { prism::shim::HostMachine::Store(At<uint64_t>(address), value); });
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue64(CUstream stream,
                             CUdeviceptr address,
                             cuuint64_t value,
                             unsigned int flags) {
  if (flags != CU_STREAM_WAIT_VALUE_GEQ) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  Of(stream)->Add([=] {
    while (prism::shim::HostMachine::Load(At<uint64_t>(address)) < value) {
      prism::shim::HostMachine::Nap();
    }
  });
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  Of(stream)->Add([=] { function(data); });
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode /*mode*/) {
  Of(stream)->Capture(new std::vector<Work>());
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  *graph = reinterpret_cast<CUgraph>(Of(stream)->capture());
  Of(stream)->Capture(nullptr);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  for (const Work& work : *reinterpret_cast<std::vector<Work>*>(graph)) {
    Of(stream)->Add(work);
  }
  return CUDA_SUCCESS;
}
}
