#include "shim/gpu/hold_device.h"

#include <algorithm>
#include <array>
#include <new>

#include "graph/base/divide.h"
#include "shim/gpu/host_machine.h"

// The fat binary of hold_kernels.cu, included by hold_image.S.
extern "C" const unsigned char prism_hold_image[];

namespace prism::shim {

using graph::CollectiveKind;

namespace {

constexpr size_t kMovedBytes = size_t{64} << 20;

}  // namespace

const char* HoldKernelName(CollectiveKind kind) {
  constexpr const char* kNames[] = {"prism_hold_allreduce",     "prism_hold_allgather",
                                    "prism_hold_reducescatter", "prism_hold_broadcast",
                                    "prism_hold_reduce",        "prism_hold_alltoall",
                                    "prism_hold_gather",        "prism_hold_scatter"};
  return kNames[static_cast<size_t>(kind)];
}

uint32_t HoldBlocks(int64_t bytes, int32_t channels) {
  constexpr int64_t kBytesOfChannel = 512 * 64;
  const int64_t most = std::max(1, channels);
  return static_cast<uint32_t>(std::clamp<int64_t>(bytes / kBytesOfChannel, 1, most));
}

uint64_t HoldBytesPerUs(int64_t link_bytes_per_s, int32_t channels) {
  constexpr int64_t kMicros = 1'000'000;
  return static_cast<uint64_t>(link_bytes_per_s * 3 / 2 / kMicros / std::max(1, channels));
}

struct HoldDevice::Callback {
  HoldBoard* board;
  HoldStream* streams;
  uint32_t hold_stream;
};

std::unique_ptr<HoldDevice> HoldDevice::Create(const Driver& driver,
                                               HoldMeans means,
                                               std::string* error) {
  std::unique_ptr<HoldDevice> device(new HoldDevice(driver, means));
  if (!device->Load(error)) {
    return nullptr;
  }
  return device;
}

HoldDevice::~HoldDevice() {
  if (board_ != nullptr) {
    Abort();
  }
}

bool HoldDevice::Load(std::string* error) {
  progress_.resize(kHoldStreams);
  const auto succeeded = [error](CUresult code, const char* call) {
    if (code != CUDA_SUCCESS) {
      *error = std::string(call) + " gives error " + std::to_string(static_cast<int>(code));
    }
    return code == CUDA_SUCCESS;
  };
  void* memory = nullptr;
  if (!succeeded(driver_.allocate_host(&memory, sizeof(HoldBoard),
                                       CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE),
                 "cuMemHostAlloc")) {
    return false;
  }
  board_ = new (memory) HoldBoard();
  if (means_ == HoldMeans::kHostCallback) {
    host_streams_ = std::make_unique<HoldStream[]>(kHoldStreams);
    return true;
  }
  if (!succeeded(driver_.device_pointer(&device_board_, memory, 0), "cuMemHostGetDevicePointer")) {
    return false;
  }
  if (!succeeded(LoadKernels(), "cuModuleLoadData of the image of holds")) {
    return false;
  }
  if (means_ == HoldMeans::kWaitValue) {
    return true;
  }
  constexpr size_t kStreamBytes = sizeof(HoldStream) * kHoldStreams;
  return succeeded(driver_.allocate(&device_streams_, kStreamBytes), "cuMemAlloc") &&
         succeeded(driver_.set(device_streams_, 0, kStreamBytes), "cuMemsetD8") &&
         succeeded(driver_.allocate(&moved_, kMovedBytes), "cuMemAlloc");
}

// All at once: a kernel that is loaded at its first launch may not have that launch under capture.
CUresult HoldDevice::LoadKernels() {
  CUmodule loaded = nullptr;
  CUresult code = driver_.load_module(&loaded, prism_hold_image);
  std::vector<const char*> names = {kHoldTransferName, kScaleName};
  for (auto kind = CollectiveKind::kAllReduce; kind <= CollectiveKind::kScatter;
       kind = static_cast<CollectiveKind>(static_cast<int>(kind) + 1)) {
    names.push_back(HoldKernelName(kind));
  }
  for (size_t i = 0; i < names.size() && code == CUDA_SUCCESS; ++i) {
    code = driver_.get_function(&kernels_[names[i]], loaded, names[i]);
  }
  return code;
}

CUdeviceptr HoldDevice::OnDevice(const void* in_board) const {
  return device_board_ + static_cast<CUdeviceptr>(static_cast<const char*>(in_board) -
                                                  reinterpret_cast<const char*>(board_));
}

bool HoldDevice::Enqueue(const char* kernel, HoldPlace hold, uint32_t blocks, CUstream stream) {
  switch (means_) {
    case HoldMeans::kKernel:
      return LaunchKernel(kernel, hold, blocks, stream);
    case HoldMeans::kWaitValue:
      return LaunchWait(hold, stream);
    case HoldMeans::kHostCallback:
      return LaunchCallback(hold.hold_stream, stream);
  }
  return false;
}

bool HoldDevice::Launch(const char* kernel,
                        uint32_t hold_stream,
                        uint32_t blocks,
                        CUstream stream,
                        uint64_t bytes_per_us) {
  hold_stream %= kHoldStreams;
  const std::lock_guard<std::mutex> one_at_a_time(launch_mutex_);
  const auto count = [&](int64_t launches) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t before = progress_[hold_stream].launched;
    progress_[hold_stream].launched += static_cast<uint64_t>(launches);
    return before;
  };
  const uint64_t sequence = count(1);
  const bool launched = Enqueue(kernel, {hold_stream, sequence, bytes_per_us}, blocks, stream);
  if (!launched) {
    count(-1);
  }
  return launched;
}

// A captured wait would compare with the values at the time of its capture.
bool HoldDevice::Capture(const char* kernel,
                         uint32_t hold_stream,
                         uint32_t blocks,
                         CUstream stream,
                         uint64_t bytes_per_us) {
  const std::lock_guard<std::mutex> one_at_a_time(launch_mutex_);
  return means_ != HoldMeans::kWaitValue &&
         Enqueue(kernel, {hold_stream % kHoldStreams, 0, bytes_per_us}, blocks, stream);
}

void HoldDevice::CountLaunch(uint32_t hold_stream) {
  const std::lock_guard<std::mutex> one_at_a_time(launch_mutex_);
  const std::lock_guard<std::mutex> lock(mutex_);
  ++progress_[hold_stream % kHoldStreams].launched;
}

bool HoldDevice::LaunchKernel(const char* kernel,
                              HoldPlace hold,
                              uint32_t blocks,
                              CUstream stream) {
  const auto found = kernels_.find(kernel);
  if (found == kernels_.end()) {
    return false;
  }
  HoldTraffic traffic = {moved_, kMovedBytes, hold.bytes_per_us};
  std::array<void*, 4> arguments = {&device_board_, &device_streams_, &hold.hold_stream, &traffic};
  return driver_.launch(found->second, std::max(1U, blocks), 1, 1, kHoldThreads, 1, 1, 0, stream,
                        arguments.data(), nullptr) == CUDA_SUCCESS;
}

bool HoldDevice::Scale(
    void* data, uint64_t count, uint32_t element, double factor, CUstream stream) {
  constexpr uint64_t kThreads = 256;
  constexpr uint64_t kMaxBlocks = 1024;  // beyond it each thread takes several elements
  const std::lock_guard<std::mutex> one_at_a_time(launch_mutex_);
  const auto found = kernels_.find(kScaleName);
  if (found == kernels_.end() || count == 0) {
    return count == 0;
  }
  const uint64_t blocks = std::min(DivideUp<uint64_t>(count, kThreads), kMaxBlocks);
  std::array<void*, 4> arguments = {&data, &count, &element, &factor};
  return driver_.launch(found->second, static_cast<uint32_t>(blocks), 1, 1, kThreads, 1, 1, 0,
                        stream, arguments.data(), nullptr) == CUDA_SUCCESS;
}

bool HoldDevice::LaunchWait(HoldPlace hold, CUstream stream) {
  HoldSlot* const slot = SlotOf(board_, hold.hold_stream, hold.sequence);
  return driver_.write_value(stream, OnDevice(&slot->arrival.of), hold.sequence + 1, 0) ==
             CUDA_SUCCESS &&
         driver_.wait_value(stream, OnDevice(&slot->end.of), hold.sequence + 1,
                            CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS;
}

bool HoldDevice::LaunchCallback(uint32_t hold_stream, CUstream stream) {
  auto callback = std::make_unique<Callback>(Callback{board_, host_streams_.get(), hold_stream});
  if (driver_.launch_host(stream, RunCallback, callback.get()) != CUDA_SUCCESS) {
    return false;
  }
  // Kept: a captured callback runs at every launch of its graph.
  static_cast<void>(callback.release());
  return true;
}

void HoldDevice::RunCallback(void* data) {
  const auto* const callback = static_cast<const Callback*>(data);
  HostMachine machine;
  HoldBlock(machine, callback->board, callback->streams, callback->hold_stream, 1);
}

// The host itself ends holds of this kind.
void HoldDevice::ReleaseWaits(uint32_t index, Progress* progress) {
  HostMachine machine;
  const bool aborted = machine.Load(&board_->abort) != 0;
  const bool over = progress->release_ns != 0 && IsOver(HostNowNs(), progress->release_ns);
  if (progress->ended < progress->launched &&
      (aborted || (progress->ended < progress->begun && over))) {
    Write(machine, &SlotOf(board_, index, progress->ended)->end, HostNowNs(), progress->ended);
    progress->release_ns = 0;
  }
}

bool HoldDevice::Poll(std::vector<HoldEvent>* events) {
  HostMachine machine;
  const size_t before = events->size();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (uint32_t index = 0; index < kHoldStreams; ++index) {
    Progress& progress = progress_[index];
    if (progress.ended == progress.launched) {
      continue;
    }
    uint64_t time_ns = 0;
    if (progress.begun == progress.ended &&
        Read(machine, &SlotOf(board_, index, progress.begun)->arrival, progress.begun, &time_ns)) {
      time_ns = means_ == HoldMeans::kWaitValue ? HostNowNs() : time_ns;
      events->push_back({index, progress.begun++, false, time_ns});
    }
    if (means_ == HoldMeans::kWaitValue) {
      ReleaseWaits(index, &progress);
    }
    if (progress.ended < progress.begun &&
        Read(machine, &SlotOf(board_, index, progress.ended)->end, progress.ended, &time_ns)) {
      events->push_back({index, progress.ended++, true, time_ns});
    }
  }
  return events->size() > before;
}

void HoldDevice::SetDeadline(uint32_t hold_stream, uint64_t sequence, uint64_t time_ns) {
  HostMachine machine;
  const std::lock_guard<std::mutex> lock(mutex_);
  progress_[hold_stream % kHoldStreams].release_ns = std::max<uint64_t>(1, time_ns);
  Write(machine, &SlotOf(board_, hold_stream, sequence)->deadline, time_ns, sequence);
}

void HoldDevice::Abort() {
  HostMachine::Store(&board_->abort, 1);
}

bool HoldDevice::HasOpen() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(progress_.begin(), progress_.end(),
                     [](const Progress& of) { return of.ended < of.launched; });
}

}  // namespace prism::shim
