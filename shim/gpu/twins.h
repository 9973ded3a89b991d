// Twins: the objects of the virtual device that correspond to objects of the real one.
//
// On a real GPU the virtual device (shim/virtual_device/) remains as the one that records: its
// calls are linked in under the names prism_twin_*, and each call of the program that issues or
// orders work is made there too. The program holds handles of the real device, so each stream,
// event, graph, kernel or descriptor has a twin, found by its handle. Thread-safe.
#pragma once

#include <type_traits>

#include <cuda_runtime_api.h>

#pragma GCC visibility push(default)
#include <cublasLt.h>
#include <cudnn.h>
#pragma GCC visibility pop

namespace prism::shim {

void PairHandles(const void* real, const void* twin);
void UnpairHandle(const void* real);
void* FindTwin(const void* real);  // nullptr if it has none

// Streams and events created by a call that is not intercepted get a twin at their first use.
cudaStream_t TwinOfStream(cudaStream_t real);
cudaEvent_t TwinOfEvent(cudaEvent_t real);

// So do kernels of the driver's modules, by name.
cudaFunction_t TwinOfKernel(cudaFunction_t real);

template <typename Handle>
inline constexpr bool kHasTwin =
    std::is_same_v<Handle, cudaStream_t> || std::is_same_v<Handle, cudaEvent_t> ||
    std::is_same_v<Handle, cudaGraph_t> || std::is_same_v<Handle, cudaGraphExec_t> ||
    std::is_same_v<Handle, cudaKernel_t> || std::is_same_v<Handle, cudaFunction_t> ||
    std::is_same_v<Handle, cublasLtMatmulDesc_t> ||
    std::is_same_v<Handle, cublasLtMatrixLayout_t> || std::is_same_v<Handle, cudnnHandle_t> ||
    std::is_same_v<Handle, cudnnTensorDescriptor_t> ||
    std::is_same_v<Handle, cudnnFilterDescriptor_t> ||
    std::is_same_v<Handle, cudnnRNNDescriptor_t> ||
    std::is_same_v<Handle, cudnnRNNDataDescriptor_t>;

// The argument to pass to the virtual device: the twin of a handle, anything else unchanged.
template <typename Argument>
Argument TwinOf(Argument argument) {
  if constexpr (std::is_same_v<Argument, cudaStream_t>) {
    return TwinOfStream(argument);
  } else if constexpr (std::is_same_v<Argument, cudaEvent_t>) {
    return TwinOfEvent(argument);
  } else if constexpr (std::is_same_v<Argument, cudaFunction_t>) {
    return TwinOfKernel(argument);
  } else if constexpr (kHasTwin<Argument>) {
    return static_cast<Argument>(FindTwin(argument));
  } else {
    return argument;
  }
}

// False if the virtual device would be given a handle without a twin.
template <typename Argument>
bool IsUsable(Argument twin) {
  if constexpr (std::is_same_v<Argument, cudaStream_t>) {
    return true;
  } else if constexpr (kHasTwin<Argument>) {
    return twin != nullptr;
  } else {
    return true;
  }
}

}  // namespace prism::shim
