// Calls of the CUDA runtime, its driver and NCCL on the virtual device, and what they record. The
// process is its own worker: the channel exists before the shim starts.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shim/channel/channel.h"
#include "shim/standalone_config.h"
#include "shim/virtual_device/memory.h"
#include "shim/virtual_device/sm_limits.h"
#include "shim/virtual_device/stream.h"

// Of NVML, whose header comes with the driver.
extern "C" {
int nvmlInitWithFlags(unsigned int flags);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, const char** device);
int nvmlDeviceGetCudaComputeCapability(const char* device, int* major, int* minor);
int nvmlDeviceGetPciInfo_v3(const char* device, void* info);
int nvmlDeviceGetMemoryInfo_v2(const char* device, void* memory);
int nvmlDeviceGetComputeRunningProcesses_v3(const char* device, unsigned int* count, void* all);
int nvmlDeviceGetUtilizationRates(const char* device, void* rates);
int nvmlDeviceGetTemperature(const char* device, int sensor, unsigned int* celsius);
int nvmlDeviceGetCpuAffinity(const char* device, unsigned int words, unsigned long* set);
int nvmlDeviceSetCpuAffinity(const char* device);
}

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;
using testing::ElementsAre;
using testing::Field;

channel::Consumer* worker = nullptr;

// Before the shim's own constructor, which opens the channel.
__attribute__((constructor(101))) void StartWorker() {
  channel::Config config = StandaloneConfig();
  config.version = channel::kProtocolVersion;
  config.mode = channel::Mode::kRecord;
  worker = new channel::Consumer(config);
  setenv("PRISM_CHANNEL_FD", std::to_string(worker->descriptor()).c_str(), 1);
}

std::vector<std::string> counters;  // names, in order of their first count

// Kinds of the ops since the last call.
std::vector<RecordKind> Issued() {
  std::vector<RecordKind> kinds;
  Record record = {};
  std::span<const std::byte> payload;
  while (worker->TryPop(&record, &payload)) {
    switch (record.kind) {
      case RecordKind::kDefine:
        if (record.define.table == channel::Table::kCounterName) {
          counters.emplace_back(reinterpret_cast<const char*>(payload.data()), payload.size());
        }
        break;
      case RecordKind::kMemcpy:
      case RecordKind::kMemset:
      case RecordKind::kSync:
      case RecordKind::kEventRecord:
      case RecordKind::kEventWait:
        kinds.push_back(record.kind);
        break;
      default:
        break;
    }
  }
  return kinds;
}

template <typename T>
std::vector<T> Values(const void* device, size_t count) {
  std::vector<T> values(count);
  ReadBytes(values.data(), device, count * sizeof(T));
  return values;
}

class DeviceCalls : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&device_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&pinned_, kBytes), cudaSuccess);
    Issued();
  }

  void TearDown() override {
    EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }

  std::vector<RecordKind> AsyncCopy(void* target, const void* source) {
    EXPECT_EQ(cudaMemcpyAsync(target, source, kBytes, cudaMemcpyDefault, stream_), cudaSuccess);
    return Issued();
  }

  static constexpr size_t kBytes = 64;
  cudaStream_t stream_ = nullptr;
  void* device_ = nullptr;
  void* pinned_ = nullptr;
  char pageable_[kBytes] = {};
};

TEST_F(DeviceCalls, asynchronous_copies_wait_where_they_end_in_pageable_memory) {
  EXPECT_THAT(AsyncCopy(pageable_, device_), ElementsAre(RecordKind::kMemcpy, RecordKind::kSync));
  EXPECT_THAT(AsyncCopy(pinned_, device_), ElementsAre(RecordKind::kMemcpy));
  EXPECT_THAT(AsyncCopy(device_, pageable_), ElementsAre(RecordKind::kMemcpy));
  EXPECT_THAT(AsyncCopy(device_, pinned_), ElementsAre(RecordKind::kMemcpy));
  EXPECT_THAT(AsyncCopy(pinned_, pageable_), ElementsAre(RecordKind::kMemcpy, RecordKind::kSync));
  ASSERT_EQ(cudaMemcpy2DAsync(pageable_, 8, device_, 8, 8, 2, cudaMemcpyDefault, stream_),
            cudaSuccess);
  EXPECT_THAT(Issued(), ElementsAre(RecordKind::kMemcpy, RecordKind::kSync));
}

TEST_F(DeviceCalls, a_captured_copy_to_pageable_memory_waits_for_nothing) {
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_THAT(AsyncCopy(pageable_, device_), ElementsAre());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launched = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&launched, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(launched, stream_), cudaSuccess);
  EXPECT_THAT(Issued(), ElementsAre(RecordKind::kMemcpy));
}

TEST_F(DeviceCalls, a_captured_fill_of_words_fills_at_the_launch) {
  const auto address = reinterpret_cast<CUdeviceptr>(device_);
  ASSERT_EQ(cuMemsetD32Async(address, 5, 4, stream_), CUDA_SUCCESS);
  EXPECT_THAT(Values<uint32_t>(device_, 4), ElementsAre(5, 5, 5, 5));
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaSuccess);
  ASSERT_EQ(cuMemsetD32Async(address, 7, 3, stream_), CUDA_SUCCESS);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launched = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_THAT(Values<uint32_t>(device_, 4), ElementsAre(5, 5, 5, 5));
  ASSERT_EQ(cudaGraphInstantiate(&launched, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(launched, stream_), cudaSuccess);
  EXPECT_THAT(Values<uint32_t>(device_, 4), ElementsAre(7, 7, 7, 5));
}

TEST_F(DeviceCalls, a_large_fill_is_written_only_where_its_value_is_one_byte) {
  constexpr size_t kWords = size_t{4} << 20;
  void* large = nullptr;
  ASSERT_EQ(cudaMalloc(&large, 4 * kWords), cudaSuccess);
  const auto address = reinterpret_cast<CUdeviceptr>(large);
  ASSERT_EQ(cuMemsetD32Async(address, 0, kWords, stream_), CUDA_SUCCESS);
  EXPECT_EQ(ValidBytes(large, 4 * kWords), 4 * kWords);
  ASSERT_EQ(cuMemsetD32Async(address, 7, kWords, stream_), CUDA_SUCCESS);
  EXPECT_EQ(ValidBytes(large, 4 * kWords), 0U);
  EXPECT_EQ(cudaFree(large), cudaSuccess);
}

TEST_F(DeviceCalls, memory_and_streams_say_whose_they_are_from_any_device) {
  ASSERT_EQ(cudaSetDevice(3), cudaSuccess);
  void* there = nullptr;
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaMalloc(&there, kBytes), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, there), cudaSuccess);
  EXPECT_EQ(attributes.device, 3);
  int device = -1;
  ASSERT_EQ(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  reinterpret_cast<CUdeviceptr>(there)),
            CUDA_SUCCESS);
  EXPECT_EQ(device, 3);
  ASSERT_EQ(cudaStreamGetDevice(stream, &device), cudaSuccess);
  EXPECT_EQ(device, 3);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, device_), cudaSuccess);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(cudaFree(there), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(DeviceCalls, popping_a_context_brings_back_the_one_below) {
  CUcontext of_two = nullptr;
  CUcontext of_three = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&of_two, 2), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&of_three, 3), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(of_two), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(of_three), CUDA_SUCCESS);
  CUcontext popped = nullptr;
  CUdevice device = -1;
  ASSERT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, of_three);
  ASSERT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 2);
  ASSERT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, of_two);
  ASSERT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
}

TEST_F(DeviceCalls, a_threads_own_default_stream_is_one_of_its_own_and_can_be_captured) {
  EXPECT_EQ(StreamIndex(nullptr), 0);
  EXPECT_EQ(StreamIndex(cudaStreamLegacy), 0);
  const uint16_t own = StreamIndex(cudaStreamPerThread);
  EXPECT_NE(own, 0);
  uint16_t other = own;
  std::thread([&] { other = StreamIndex(cudaStreamPerThread); }).join();
  EXPECT_NE(other, own);
  EXPECT_EQ(StreamIndex(cudaStreamPerThread), own);
  EXPECT_NE(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed), cudaSuccess);
  cudaGetLastError();
  ASSERT_EQ(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(cudaStreamPerThread, &graph), cudaSuccess);
}

TEST_F(DeviceCalls, counts_what_it_leaves_out_of_order_and_of_account) {
  ASSERT_EQ(cudaMemsetAsync(device_, 0, kBytes, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(device_, 0, kBytes, nullptr), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  void* there = nullptr;
  ASSERT_EQ(cudaMalloc(&there, kBytes), cudaSuccess);
  EXPECT_EQ(cudaFree(there), cudaSuccess);
  Issued();
  EXPECT_THAT(counters, testing::IsSupersetOf(
                            {"default_stream_order_left_out", "memory_of_several_devices"}));
}

TEST_F(DeviceCalls, a_query_of_a_stream_waits_for_it) {
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
  EXPECT_THAT(Issued(), ElementsAre(RecordKind::kSync));
  EXPECT_THAT(counters, testing::Contains("stream_query_taken_as_wait"));
}

TEST_F(DeviceCalls, a_query_of_an_event_by_the_program_is_counted) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  Issued();
  EXPECT_THAT(counters, testing::Contains("event_query_taken_as_over"));
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

// As far as nobody tells it better.
TEST_F(DeviceCalls, time_between_events_is_that_of_short_ops) {
  cudaEvent_t events[3] = {};
  for (cudaEvent_t& event : events) {
    ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  }
  ASSERT_EQ(cudaEventRecord(events[0], stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(events[1], stream_), cudaSuccess);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(cudaMemsetAsync(device_, 0, kBytes, stream_), cudaSuccess);
  }
  ASSERT_EQ(cudaEventRecord(events[2], stream_), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, events[0], events[0]), cudaSuccess);
  EXPECT_EQ(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, events[0], events[1]), cudaSuccess);
  EXPECT_FLOAT_EQ(milliseconds, 0.0005F);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, events[1], events[2]), cudaSuccess);
  EXPECT_FLOAT_EQ(milliseconds, 0.1F);
  for (cudaEvent_t event : events) {
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  }
  Issued();
}

TEST_F(DeviceCalls, threads_beyond_two_that_issue_work_are_counted) {
  const auto work = [&] { EXPECT_EQ(cudaMemsetAsync(device_, 0, kBytes, stream_), cudaSuccess); };
  counters.clear();
  work();
  std::thread(work).join();
  Issued();
  EXPECT_THAT(counters, testing::Not(testing::Contains("several_issuing_threads")));
  std::thread(work).join();
  Issued();
  EXPECT_THAT(counters, testing::Contains("several_issuing_threads"));
}

// In a separate child, which uses up all numbers.
TEST_F(DeviceCalls, streams_without_a_number_are_refused) {
  const pid_t child = fork();
  if (child == 0) {
    cudaStream_t stream = nullptr;
    cudaError_t error = cudaSuccess;
    do {
      error = cudaStreamCreate(&stream);
    } while (error == cudaSuccess && StreamIndex(stream) != 0);
    _exit(error == cudaErrorMemoryAllocation ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(DeviceCalls, promises_no_memory_that_is_refused) {
  cudaDeviceProp properties = {};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.managedMemory, 0);
  EXPECT_EQ(properties.concurrentManagedAccess, 0);
}

uint64_t OfPool(cudaMemPoolAttr attribute) {
  cudaMemPool_t pool = nullptr;
  uint64_t value = 0;
  EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, 0), cudaSuccess);
  EXPECT_EQ(cudaMemPoolGetAttribute(pool, attribute, &value), cudaSuccess);
  return value;
}

TEST_F(DeviceCalls, a_pool_packs_small_blocks_and_says_what_it_holds) {
  constexpr size_t kBlocks = 50'000;  // 2 MiB each are more than the device has
  size_t free_before = 0;
  size_t free_now = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_before, &total), cudaSuccess);
  std::vector<void*> blocks(kBlocks);
  for (void*& block : blocks) {
    ASSERT_EQ(cudaMallocAsync(&block, 256, stream_), cudaSuccess);
  }
  EXPECT_EQ(OfPool(cudaMemPoolAttrUsedMemCurrent), kBlocks * 512);
  EXPECT_EQ(OfPool(cudaMemPoolAttrReservedMemCurrent), size_t{32} << 20);
  ASSERT_EQ(cudaMemGetInfo(&free_now, &total), cudaSuccess);
  EXPECT_EQ(free_before - free_now, size_t{32} << 20);
  ASSERT_EQ(cudaMemsetAsync(blocks[7], 1, 256, stream_), cudaSuccess);
  EXPECT_EQ(Values<uint8_t>(blocks[7], 256).back(), 1);
  for (size_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(cudaFreeAsync(blocks[(i * 7919) % kBlocks], stream_), cudaSuccess);
  }
  EXPECT_EQ(OfPool(cudaMemPoolAttrUsedMemCurrent), 0U);
  EXPECT_EQ(OfPool(cudaMemPoolAttrReservedMemCurrent), 0U);
  EXPECT_EQ(OfPool(cudaMemPoolAttrUsedMemHigh), kBlocks * 512);
  EXPECT_EQ(cudaFreeAsync(blocks[0], stream_), cudaErrorInvalidValue);
  ASSERT_EQ(cudaMemGetInfo(&free_now, &total), cudaSuccess);
  EXPECT_EQ(free_before, free_now);
}

TEST_F(DeviceCalls, a_pool_of_the_program_keeps_what_its_threshold_says) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &properties), cudaSuccess);
  uint64_t all = UINT64_MAX;
  ASSERT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all), cudaSuccess);
  void* block = nullptr;
  ASSERT_EQ(cudaMallocFromPoolAsync(&block, size_t{40} << 20, pool, stream_), cudaSuccess);
  ASSERT_EQ(cudaFree(block), cudaSuccess);
  uint64_t reserved = 0;
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved),
            cudaSuccess);
  EXPECT_EQ(reserved, size_t{64} << 20);
  ASSERT_EQ(cudaMemPoolTrimTo(pool, 0), cudaSuccess);
  ASSERT_EQ(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved),
            cudaSuccess);
  EXPECT_EQ(reserved, 0U);
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

TEST_F(DeviceCalls, memory_of_a_pool_may_be_taken_and_given_back_under_capture) {
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
  void* block = nullptr;
  ASSERT_EQ(cudaMallocAsync(&block, 1024, stream_), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(block, stream_), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  size_t nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 2U);
}

// What CUDA 13's ptxas accepts for .minnctapersm and .maxntid.
// The layouts are those of nvml.h.
TEST_F(DeviceCalls, nvml_answers_monitors_and_refuses_thermometers) {
  ASSERT_EQ(nvmlInitWithFlags(0), 0);
  const char* device = nullptr;
  ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(0, &device), 0);
  int major = 0;
  int minor = 0;
  ASSERT_EQ(nvmlDeviceGetCudaComputeCapability(device, &major, &minor), 0);
  EXPECT_EQ(major, 9);
  struct {
    char legacy[16];
    unsigned int numbers[5];
    char id[32];
  } place = {};
  ASSERT_EQ(nvmlDeviceGetPciInfo_v3(device, &place), 0);
  char id[16] = {};
  ASSERT_EQ(cudaDeviceGetPCIBusId(id, sizeof(id), 0), cudaSuccess);
  EXPECT_STRCASEEQ(place.legacy, id);
  EXPECT_STRCASEEQ(place.id, (std::string("0000") + id).c_str());
  struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
  } memory = {};
  ASSERT_EQ(nvmlDeviceGetMemoryInfo_v2(device, &memory), 0);
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(memory.total, total);
  EXPECT_EQ(memory.free, free);
  EXPECT_EQ(memory.used, total - free);
  struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int instances[2];
  } process = {};
  unsigned int count = 0;
  constexpr int kInsufficientSize = 7;
  EXPECT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, nullptr), kInsufficientSize);
  ASSERT_EQ(count, 1);
  ASSERT_EQ(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, &process), 0);
  EXPECT_EQ(process.pid, static_cast<unsigned int>(getpid()));
  EXPECT_EQ(process.used, memory.used);
  constexpr int kNotSupported = 3;
  EXPECT_EQ(nvmlDeviceGetTemperature(device, 0, nullptr), kNotSupported);
  unsigned int load[2] = {};
  ASSERT_EQ(nvmlDeviceGetUtilizationRates(device, load), 0);
  EXPECT_THAT(load, ElementsAre(100, 100));
  Issued();
  EXPECT_THAT(counters,
              testing::IsSupersetOf({"refused_nvmlDeviceGetTemperature", "gpu_load_assumed"}));
}

TEST_F(DeviceCalls, nvml_gives_the_cpus_of_the_process) {
  const char* device = nullptr;
  ASSERT_EQ(nvmlDeviceGetHandleByIndex_v2(0, &device), 0);
  ASSERT_EQ(nvmlDeviceSetCpuAffinity(device), 0);
  cpu_set_t own;
  ASSERT_EQ(sched_getaffinity(0, sizeof(own), &own), 0);
  unsigned long near[sizeof(own) / sizeof(unsigned long) + 1] = {};
  near[std::size(near) - 1] = 1;
  ASSERT_EQ(nvmlDeviceGetCpuAffinity(device, std::size(near), near), 0);
  EXPECT_EQ(std::memcmp(near, &own, sizeof(own)), 0);
  EXPECT_EQ(near[std::size(near) - 1], 0);
}

TEST(SmLimits, are_those_of_the_capability_not_of_its_generation) {
  const auto limits = [](int threads, int blocks) {
    return testing::AllOf(Field(&SmLimits::threads, threads), Field(&SmLimits::blocks, blocks),
                          Field(&SmLimits::known, true));
  };
  EXPECT_THAT(SmLimitsOf(7, 5), limits(1024, 16));
  EXPECT_THAT(SmLimitsOf(8, 0), limits(2048, 32));
  EXPECT_THAT(SmLimitsOf(8, 6), limits(1536, 16));
  EXPECT_THAT(SmLimitsOf(8, 9), limits(1536, 24));
  EXPECT_THAT(SmLimitsOf(9, 0), limits(2048, 32));
  EXPECT_THAT(SmLimitsOf(10, 3), limits(2048, 32));
  EXPECT_THAT(SmLimitsOf(11, 0), limits(1536, 24));
  EXPECT_THAT(SmLimitsOf(12, 0), limits(1536, 24));
  EXPECT_FALSE(SmLimitsOf(9, 4).known);
}

}  // namespace
}  // namespace prism::shim
