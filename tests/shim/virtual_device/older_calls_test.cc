// A program that was made for CUDA 12: its structure of a device's properties, and its forms of the
// calls that CUDA 13 changed.
#include <array>
#include <cstddef>
#include <cstring>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "shim/virtual_device/library_versions.h"

// As the stand-in of libcudart.so.12 has it.
extern "C" __attribute__((visibility("default"))) const int prism_version_of_libcudart = 12080;

extern "C" {
cudaError_t cudaGetDeviceProperties_v2(void* properties, int device);
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                        cudaStreamCaptureStatus* status,
                                        unsigned long long* id,
                                        cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies,
                                        size_t* count);
}

namespace prism::shim {
namespace {

template <typename Value>
Value At(const std::array<char, 1032>& bytes, size_t offset) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

// Offsets in CUDA 12's driver_types.h.
TEST(OlderCalls, properties_have_the_structure_of_cuda_12) {
  std::array<char, 1032> properties{};
  properties.fill('\x5a');
  ASSERT_EQ(cudaGetDeviceProperties_v2(properties.data(), 0), cudaSuccess);
  EXPECT_GT(At<size_t>(properties, 288), size_t{1} << 30);    // totalGlobalMem
  EXPECT_EQ(At<int>(properties, 308), 32);                    // warpSize
  EXPECT_EQ(At<int>(properties, 348), 1'980'000);             // clockRate
  EXPECT_EQ(At<int>(properties, 360), 9);                     // major
  EXPECT_EQ(At<int>(properties, 364), 0);                     // minor
  EXPECT_EQ(At<int>(properties, 384), 1);                     // deviceOverlap
  EXPECT_EQ(At<int>(properties, 388), 132);                   // multiProcessorCount
  EXPECT_EQ(At<int>(properties, 404), 0);                     // computeMode
  EXPECT_EQ(At<int>(properties, 408), 131072);                // maxTexture1D
  EXPECT_EQ(At<int>(properties, 612), 5120);                  // memoryBusWidth
  EXPECT_EQ(At<int>(properties, 624), 2048);                  // maxThreadsPerMultiProcessor
  EXPECT_EQ(At<size_t>(properties, 640), size_t{228} << 10);  // sharedMemPerMultiprocessor
  EXPECT_EQ(At<size_t>(properties, 696), size_t{227} << 10);  // sharedMemPerBlockOptin
  EXPECT_EQ(At<int>(properties, 772), 1);                     // clusterLaunch
  EXPECT_EQ(At<int>(properties, 1028), 0);
  EXPECT_EQ(cudaGetDeviceProperties_v2(properties.data(), 99), cudaErrorInvalidDevice);
}

TEST(OlderCalls, versions_are_those_of_the_program) {
  EXPECT_TRUE(IsCuda12());
  int version = 0;
  EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 12080);
}

// Three arguments: what is in the registers of further ones is not an address.
TEST(OlderCalls, capture_info_has_three_arguments_or_six) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), cudaSuccess);
  auto* const nowhere = reinterpret_cast<void*>(1);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  EXPECT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id, static_cast<cudaGraph_t*>(nowhere),
                                     static_cast<const cudaGraphNode_t**>(nowhere),
                                     static_cast<const cudaGraphEdgeData**>(nowhere),
                                     static_cast<size_t*>(nowhere)),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0U);
  cudaGraph_t graph = nullptr;
  size_t count = 7;
  const cudaGraphNode_t* nodes = nullptr;
  EXPECT_EQ(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &count), cudaSuccess);
  EXPECT_EQ(count, 0U);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory, 0, 64, stream), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory, 0, 64, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &count), cudaSuccess);
  ASSERT_EQ(count, 1U);
  size_t before = 0;  // the third argument
  EXPECT_EQ(
      cudaGraphNodeGetDependencies(nodes[0], nullptr, reinterpret_cast<cudaGraphEdgeData*>(&before),
                                   static_cast<size_t*>(nowhere)),
      cudaSuccess);
  EXPECT_EQ(before, 1U);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
}

TEST(OlderCalls, structure_of_cuda_11_is_refused) {
  cudaDeviceProp properties = {};
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 0), cudaErrorNotSupported);
}

}  // namespace
}  // namespace prism::shim
