// A GPU that is the CPU, with all of CUDA on top: the virtual device (libfake_virtual.so, loaded
// after this library), whose kernels do nothing, plus those that matter to the shim: holds and
// factors run, on one queue that keeps the order of issue for all streams, and the few that only
// take their time: torch.cuda._sleep's and those of experiments/gpu/known_kernels.cu. Copies after
// a running hold wait in the queue; calls that wait for the device wait for the queue. Requests of
// the thread that computes values during a hold (shim/gpu/holds.cc) are done at once.
#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "shim/gpu/hold_logic.h"
#include "shim/gpu/host_machine.h"
#include "shim/gpu/reduction_logic.h"
#include "shim/nccl/reduction.h"
#include "shim/observer/observer_calls.h"
#include "shim/virtual_device/nvcc_calls.h"
#include "tests/support/fake_cupti.h"
#include "tests/support/work_queue.h"

namespace {

using prism::shim::Element;
using prism::testing::WorkQueue;

// The virtual device's function of that name.
template <typename Function>
Function* Behind(const char* name) {
  static void* const library = dlopen(PRISM_FAKE_VIRTUAL, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

bool IsBesideHolds() {
  std::array<char, 16> name = {};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return std::string_view(name.data()) == "prism values";
}

class Queue {
 public:
  static Queue& Get() {
    static Queue* const queue = new Queue();
    return *queue;
  }

  void Add(WorkQueue::Work work) { works_.Add(std::move(work)); }

  // Of a work that writes there. False when nothing is running: the caller does it at once.
  bool AddIfBusy(const void* target, size_t bytes, const WorkQueue::Work& work) {
    if (!IsBusy()) {
      return false;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    writes_.push_back({static_cast<const std::byte*>(target), bytes, works_.Add(work)});
    return true;
  }

  // Waits for what was added that writes there.
  void WaitForWrites(const void* source, size_t bytes) {
    if (!IsBusy()) {
      return;
    }
    const auto* const begin = static_cast<const std::byte*>(source);
    uint64_t works = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const Write& write : writes_) {
        const bool overlaps = write.begin < begin + bytes && begin < write.begin + write.bytes;
        works = overlaps ? write.works : works;
      }
    }
    works_.Wait(works);
  }

  bool IsBusy() {
    if (works_.IsBusy()) {
      return !IsBesideHolds();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!works_.IsBusy()) {
      writes_.clear();
    }
    return false;
  }

  void Drain() {
    if (!IsBesideHolds()) {
      works_.Wait();
    }
  }

 private:
  struct Write {
    const std::byte* begin;
    size_t bytes;
    uint64_t works;  // that were added by then
  };

  Queue() = default;

  std::mutex mutex_;
  std::vector<Write> writes_;
  WorkQueue works_;
};

// What is issued on streams under capture, for launches of its graph; the virtual device knows
// which streams are. One capture at a time.
class Captures {
 public:
  using Works = std::vector<std::function<void()>>;

  static Captures& Get() {
    static Captures* const captures = new Captures();
    return *captures;
  }

  // False if the stream is not under capture.
  bool Add(cudaStream_t stream, std::function<void()> work) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    Behind<decltype(cudaStreamIsCapturing)>("cudaStreamIsCapturing")(stream, &status);
    if (status != cudaStreamCaptureStatusActive) {
      return false;
    }
    works_.push_back(std::move(work));
    return true;
  }

  // Turns the current capture into a graph, and a graph into an executable one.
  void Keep(const void* graph) { kept_[graph] = std::exchange(works_, {}); }
  void Copy(const void* graph, const void* launched) { kept_[launched] = kept_[graph]; }
  const Works& Kept(const void* launched) { return kept_[launched]; }

 private:
  Works works_;
  std::map<const void*, Works> kept_;
};

// Enqueues in stream order.
void Enqueue(cudaStream_t stream, const WorkQueue::Work& work) {
  if (!Captures::Get().Add(stream, work)) {
    Queue::Get().Add(work);
  }
}

// Kernels of the shim's own image.
struct Kernels {
  std::mutex mutex;
  std::set<const void*> modules;
  std::set<std::string> names;  // their addresses are the handles
};

Kernels& GetKernels() {
  static Kernels* const kernels = new Kernels();
  return *kernels;
}

const std::string* FindOwn(CUfunction function) {
  Kernels& kernels = GetKernels();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  for (const std::string& name : kernels.names) {
    if (static_cast<const void*>(&name) == static_cast<const void*>(function)) {
      return &name;
    }
  }
  return nullptr;
}

template <typename T>
T Argument(void** arguments, int index) {
  T value;
  std::memcpy(&value, arguments[index], sizeof(value));
  return value;
}

template <typename T>
T* At(CUdeviceptr address) {
  return reinterpret_cast<T*>(address);
}

void Spin(cudaStream_t stream, double length_ns) {
  Enqueue(stream, [=] {
    std::this_thread::sleep_for(std::chrono::duration<double, std::nano>(length_ns));
  });
}

// The steps of a timer of 1,024 ns, as the GPU's kernel reads it.
void WriteTimes(void* times, uint32_t count) {
  constexpr uint32_t kReadsAStep = 64;
  std::vector<uint64_t> read(count);
  for (uint32_t i = 0; i < count; ++i) {
    read[i] = uint64_t{1024} * (i / kReadsAStep);
  }
  Behind<decltype(prism_shim_write)>("prism_shim_write")(times, read.data(),
                                                         count * sizeof(uint64_t));
}

void LaunchOwn(const std::string& name, cudaStream_t stream, void** arguments) {
  if (name == "prism_known_copy") {
    Spin(stream, static_cast<double>(Argument<uint64_t>(arguments, 3)));
    return;
  }
  if (name == "prism_timer_steps") {
    WriteTimes(Argument<void*>(arguments, 0), Argument<uint32_t>(arguments, 1));
    return;
  }
  if (name == "prism_reduce") {
    const auto task = Argument<prism::shim::ReductionTask>(arguments, 0);
    RunReduction(task, 0, 1);
    return;
  }
  if (name == "prism_scale") {
    auto* const data = static_cast<std::byte*>(Argument<void*>(arguments, 0));
    const auto count = Argument<uint64_t>(arguments, 1);
    const auto element = static_cast<Element>(Argument<uint32_t>(arguments, 2));
    const auto factor = Argument<double>(arguments, 3);
    if (element < Element::kFloat16 || element > Element::kBfloat16) {
      return;  // the kernel does not handle them
    }
    Enqueue(stream, [=] {
      const size_t bytes = prism::shim::ElementBytes(element);
      for (uint64_t i = 0; i < count; ++i) {
        std::byte* const at = data + i * bytes;
        prism::shim::WriteScalar(at, element, prism::shim::ReadScalar(at, element) * factor);
      }
    });
    return;
  }
  auto* const board = At<prism::shim::HoldBoard>(Argument<CUdeviceptr>(arguments, 0));
  auto* const streams = At<prism::shim::HoldStream>(Argument<CUdeviceptr>(arguments, 1));
  const auto hold_stream = Argument<uint32_t>(arguments, 2);
  // One block represents all.
  Enqueue(stream, [=] {
    prism::shim::HostMachine machine;
    prism::shim::HoldBlock(machine, board, streams, hold_stream, 1);
  });
}

}  // namespace

extern "C" {

// What the observer of the program knows of the kernels' results, in the order of issue.
size_t prism_shim_read(void* out, const void* source, size_t bytes) {
  Queue::Get().WaitForWrites(source, bytes);
  return Behind<decltype(prism_shim_read)>("prism_shim_read")(out, source, bytes);
}

void prism_shim_write(void* target, const void* data, size_t bytes) {
  auto* const write = Behind<decltype(prism_shim_write)>("prism_shim_write");
  const auto* const begin = static_cast<const std::byte*>(data);
  const std::vector<std::byte> kept(begin, begin + bytes);
  if (!Queue::Get().AddIfBusy(target, bytes, [=] { write(target, kept.data(), kept.size()); })) {
    write(target, data, bytes);
  }
}

void prism_shim_forget(void* target, size_t bytes) {
  auto* const forget = Behind<decltype(prism_shim_forget)>("prism_shim_forget");
  if (!Queue::Get().AddIfBusy(target, bytes, [=] { forget(target, bytes); })) {
    forget(target, bytes);
  }
}

// The caller reads it next and waits for it.
void prism_shim_answer_read(const int64_t* number) {
  Queue::Get().Drain();
  Behind<decltype(prism_shim_answer_read)>("prism_shim_answer_read")(number);
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  constexpr uint32_t kFatBinaryMagic = 0xBA55ED50;
  uint32_t magic = 0;
  uint64_t size = 0;
  std::memcpy(&magic, image, sizeof(magic));
  if (magic == kFatBinaryMagic) {
    std::memcpy(&size, static_cast<const char*>(image) + 8, sizeof(size));
    const std::string_view text(static_cast<const char*>(image), size);
    if (text.find("prism_hold_") != text.npos || text.find("prism_reduce") != text.npos ||
        text.find("prism_known_copy") != text.npos) {
      Kernels& kernels = GetKernels();
      const std::lock_guard<std::mutex> lock(kernels.mutex);
      kernels.modules.insert(image);
      *module = static_cast<CUmodule>(const_cast<void*>(image));
      return CUDA_SUCCESS;
    }
  }
  return Behind<decltype(cuModuleLoadData)>("cuModuleLoadData")(module, image);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  Kernels& kernels = GetKernels();
  {
    const std::lock_guard<std::mutex> lock(kernels.mutex);
    if (kernels.modules.contains(module)) {
      const std::string& kept = *kernels.names.insert(name).first;
      *function = static_cast<CUfunction>(const_cast<void*>(static_cast<const void*>(&kept)));
      return CUDA_SUCCESS;
    }
  }
  return Behind<decltype(cuModuleGetFunction)>("cuModuleGetFunction")(function, module, name);
}

CUresult cuLaunchKernel(CUfunction function,
                        unsigned int grid_x,
                        unsigned int grid_y,
                        unsigned int grid_z,
                        unsigned int block_x,
                        unsigned int block_y,
                        unsigned int block_z,
                        unsigned int shared_bytes,
                        CUstream stream,
                        void** arguments,
                        void** extra) {
  if (const std::string* const own = FindOwn(function)) {
    LaunchOwn(*own, stream, arguments);
    return CUDA_SUCCESS;
  }
  return Behind<decltype(cuLaunchKernel)>("cuLaunchKernel")(function, grid_x, grid_y, grid_z,
                                                            block_x, block_y, block_z, shared_bytes,
                                                            stream, arguments, extra);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel,
                               dim3 grid,
                               dim3 block,
                               void** arguments,
                               size_t shared_bytes,
                               cudaStream_t stream) {
  const cudaError_t error = Behind<decltype(__cudaLaunchKernel)>("__cudaLaunchKernel")(
      kernel, grid, block, arguments, shared_bytes, stream);
  constexpr double kNsPerCycle = 0.4;  // as experiments/gpu/programs/common.py counts
  if (Behind<decltype(prism::testing::cuptiLaunchedSpin)>("cuptiLaunchedSpin")()) {
    Spin(stream, kNsPerCycle * static_cast<double>(Argument<int64_t>(arguments, 0)));
  }
  return error;
}

cudaError_t cudaLaunchKernel(const void* function,
                             dim3 grid,
                             dim3 block,
                             void** arguments,
                             size_t shared_bytes,
                             cudaStream_t stream) {
  return __cudaLaunchKernel(static_cast<cudaKernel_t>(const_cast<void*>(function)), grid, block,
                            arguments, shared_bytes, stream);
}

CUresult cuStreamWriteValue64(CUstream stream,
                              CUdeviceptr address,
                              cuuint64_t value,
                              unsigned int /*flags*/) {
  Enqueue(stream, [=] { prism::shim::HostMachine::Store(At<uint64_t>(address), value); });
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitValue64(CUstream stream,
                             CUdeviceptr address,
                             cuuint64_t value,
                             unsigned int /*flags*/) {
  Enqueue(stream, [=] {
    while (prism::shim::HostMachine::Load(At<uint64_t>(address)) < value) {
      prism::shim::HostMachine::Nap();
    }
  });
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  Enqueue(stream, [=] { function(data); });
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned int /*flags*/) {
  *memory = std::calloc(1, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* device, void* host, unsigned int /*flags*/) {
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

// For holds; programs allocate through the runtime.
CUresult cuMemAlloc(CUdeviceptr* device, size_t bytes) {
  *device = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8(CUdeviceptr device, unsigned char value, size_t bytes) {
  std::memset(At<void>(device), value, bytes);
  return CUDA_SUCCESS;
}

cudaError_t cudaMemcpyAsync(
    void* target, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const auto copy = [=] {
    return Behind<decltype(cudaMemcpyAsync)>("cudaMemcpyAsync")(target, source, bytes, kind,
                                                                stream);
  };
  if (Captures::Get().Add(stream, [=] { copy(); })) {
    return cudaSuccess;
  }
  const uint64_t op = Behind<decltype(prism::testing::cuptiOp)>("cuptiOp")();
  const auto later = [=] {
    Behind<decltype(prism::testing::cuptiRunAs)>("cuptiRunAs")(op);
    copy();
    Behind<decltype(prism::testing::cuptiRunAs)>("cuptiRunAs")(0);
  };
  return Queue::Get().AddIfBusy(target, bytes, later) ? cudaSuccess : copy();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const cudaError_t error =
      Behind<decltype(cudaStreamEndCapture)>("cudaStreamEndCapture")(stream, graph);
  Captures::Get().Keep(*graph);
  Behind<decltype(prism::testing::cuptiKeepNodes)>("cuptiKeepNodes")(*graph);
  return error;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* launched,
                                          cudaGraph_t graph,
                                          unsigned long long flags) {
  const cudaError_t error = Behind<decltype(cudaGraphInstantiateWithFlags)>(
      "cudaGraphInstantiateWithFlags")(launched, graph, flags);
  Captures::Get().Copy(graph, *launched);
  Behind<decltype(prism::testing::cuptiCloneNodes)>("cuptiCloneNodes")(graph, *launched);
  return error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* launched,
                                 cudaGraph_t graph,
                                 unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(launched, graph, flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t launched, cudaStream_t stream) {
  for (const WorkQueue::Work& work : Captures::Get().Kept(launched)) {
    Queue::Get().Add(work);
  }
  auto* const launch = Behind<decltype(prism::testing::cuptiLaunch)>("cuptiLaunch");
  launch(launched);
  const cudaError_t error = Behind<decltype(cudaGraphLaunch)>("cudaGraphLaunch")(launched, stream);
  launch(nullptr);
  return error;
}

cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  Queue::Get().Drain();
  return Behind<decltype(cudaMemcpy)>("cudaMemcpy")(target, source, bytes, kind);
}

// Waits by polling, as the driver does, for FAKE_GPU_POLLS_MS at least.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Queue::Get().Drain();
  const char* const polls = std::getenv("FAKE_GPU_POLLS_MS");
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(polls == nullptr ? 0 : std::atoi(polls));
  while (std::chrono::steady_clock::now() < until) {
  }
  return Behind<decltype(cudaStreamSynchronize)>("cudaStreamSynchronize")(stream);
}

cudaError_t cudaDeviceSynchronize() {
  Queue::Get().Drain();
  return Behind<decltype(cudaDeviceSynchronize)>("cudaDeviceSynchronize")();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Queue::Get().Drain();
  return Behind<decltype(cudaEventSynchronize)>("cudaEventSynchronize")(event);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Queue::Get().IsBusy() ? cudaErrorNotReady
                               : Behind<decltype(cudaEventQuery)>("cudaEventQuery")(event);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Queue::Get().IsBusy() ? cudaErrorNotReady
                               : Behind<decltype(cudaStreamQuery)>("cudaStreamQuery")(stream);
}
}
