// One rank of two under the shim: a sum of two numbers with an absent peer, from host memory and
// back, with a hold around it. What it prints is compared in device_forward_test.
#include <array>
#include <cstdio>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace {

bool Sum(ncclComm_t comm, cudaStream_t stream, size_t count) {
  std::vector<float> numbers(count, 1.5F);
  float* buffer = nullptr;
  const size_t bytes = count * sizeof(float);
  if (cudaMalloc(reinterpret_cast<void**>(&buffer), bytes) != cudaSuccess ||
      cudaMemcpy(buffer, numbers.data(), bytes, cudaMemcpyHostToDevice) != cudaSuccess ||
      ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, comm, stream) != ncclSuccess ||
      cudaStreamSynchronize(stream) != cudaSuccess ||
      cudaMemcpy(numbers.data(), buffer, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) {
    return false;
  }
  std::printf("sum of %zu: %g %g\n", count, static_cast<double>(numbers.front()),
              static_cast<double>(numbers.back()));
  return true;
}

// Integers, which no kernel of a hold scales.
bool SumOfIntegers(ncclComm_t comm, cudaStream_t stream, size_t count) {
  std::vector<int> numbers(count, 3);
  int* buffer = nullptr;
  const size_t bytes = count * sizeof(int);
  if (cudaMalloc(reinterpret_cast<void**>(&buffer), bytes) != cudaSuccess ||
      cudaMemcpy(buffer, numbers.data(), bytes, cudaMemcpyHostToDevice) != cudaSuccess ||
      ncclAllReduce(buffer, buffer, count, ncclInt, ncclSum, comm, stream) != ncclSuccess ||
      cudaStreamSynchronize(stream) != cudaSuccess ||
      cudaMemcpy(numbers.data(), buffer, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) {
    return false;
  }
  std::printf("sum of %zu integers: %d %d\n", count, numbers.front(), numbers.back());
  return true;
}

// A wait invalidates a capture, after which the stream is as before.
bool SpoilCapture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  return cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess &&
         cudaStreamSynchronize(stream) != cudaSuccess &&
         cudaStreamEndCapture(stream, &graph) != cudaSuccess && graph == nullptr;
}

// The same in a graph, which is launched with different numbers from those at capture.
bool SumInGraph(ncclComm_t comm, cudaStream_t stream, size_t count) {
  std::vector<float> numbers(count);
  float* buffer = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launched = nullptr;
  const size_t bytes = count * sizeof(float);
  if (cudaMalloc(reinterpret_cast<void**>(&buffer), bytes) != cudaSuccess ||
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) != cudaSuccess ||
      ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, comm, stream) != ncclSuccess ||
      cudaStreamEndCapture(stream, &graph) != cudaSuccess ||
      cudaGraphInstantiate(&launched, graph, 0) != cudaSuccess) {
    return false;
  }
  for (const float number : {2.5F, 4.0F}) {
    numbers.assign(count, number);
    if (cudaMemcpy(buffer, numbers.data(), bytes, cudaMemcpyHostToDevice) != cudaSuccess ||
        cudaGraphLaunch(launched, stream) != cudaSuccess ||
        cudaStreamSynchronize(stream) != cudaSuccess ||
        cudaMemcpy(numbers.data(), buffer, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) {
      return false;
    }
    std::printf("launched sum of %zu: %g %g\n", count, static_cast<double>(numbers.front()),
                static_cast<double>(numbers.back()));
  }
  return true;
}

}  // namespace

int main() {
  ncclUniqueId id = {};
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  ncclGetUniqueId(&id);
  if (cudaStreamCreate(&stream) != cudaSuccess ||
      ncclCommInitRank(&comm, 2, id, 0) != ncclSuccess) {
    return 2;
  }
  // Through the host, through the host and a kernel, and on the device.
  constexpr size_t kMiddle = size_t{1} << 14;
  constexpr size_t kLarge = size_t{1} << 19;
  return Sum(comm, stream, 4) && Sum(comm, stream, kMiddle) && Sum(comm, stream, kLarge) &&
                 SumOfIntegers(comm, stream, kLarge) && SpoilCapture(stream) &&
                 SumInGraph(comm, stream, kMiddle) && SumInGraph(comm, stream, kLarge)
             ? 0
             : 3;
}
