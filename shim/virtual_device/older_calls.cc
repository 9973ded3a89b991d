// What differs between the CUDA versions that programs are made for. The other files have CUDA 13's
// forms; of all calls that they define, these have others in CUDA 12 (12.4 to 12.9):
//
//   call                            CUDA 12                            CUDA 13
//   cudaGetDeviceProperties         CUDA 11's structure                its own structure
//   cudaGetDeviceProperties_v2      its own structure                  -
//   cudaStreamGetCaptureInfo        status and id alone                with graph, nodes and edges
//   cudaStreamGetCaptureInfo_v2     with graph and nodes               -
//   cudaStreamGetCaptureInfo_v3     as CUDA 13 without _v3             -
//   cudaGraphNodeGetDependencies    without edges                      with edges
//   cudaGraphNodeGetDependencies_v2 as CUDA 13 without _v2             -
//   cudaGetDriverEntryPoint         of the runtime's own version       - (ByVersion)
//
// Calls that only newer headers declare (cuCtxGetDevice_v2, ncclCommShrink, ...) are the same in
// every version that has them. cuGetProcAddress looks at the version that it is asked for
// (driver.cc).
#include <cstddef>
#include <cstring>
#include <iterator>

#include <cuda_runtime_api.h>

#include "shim/session.h"
#include "shim/virtual_device/library_versions.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

constexpr size_t kProperties12Bytes = 1032;

// Fields are in the same order; CUDA 13 left some out. Each run of fields that stayed together:
// where it begins in CUDA 13 and in CUDA 12.
struct FieldRun {
  size_t from;
  size_t to;
};
constexpr FieldRun kRuns[] = {{0, 0},
                              {offsetof(cudaDeviceProp, multiProcessorCount), 388},
                              {offsetof(cudaDeviceProp, integrated), 396},
                              {offsetof(cudaDeviceProp, maxTexture1D), 408},
                              {offsetof(cudaDeviceProp, maxTexture2D), 420},
                              {offsetof(cudaDeviceProp, memoryBusWidth), 612},
                              {offsetof(cudaDeviceProp, sharedMemPerMultiprocessor), 640},
                              {offsetof(cudaDeviceProp, pageableMemoryAccess), 672},
                              {offsetof(cudaDeviceProp, sharedMemPerBlockOptin), 696},
                              {offsetof(cudaDeviceProp, deviceNumaConfig), kProperties12Bytes}};

// The numbers that CUDA 13 left out, each an attribute of its own.
struct LeftOut {
  size_t to;
  cudaDeviceAttr attribute;
};
constexpr LeftOut kLeftOut[] = {{348, cudaDevAttrClockRate},
                                {384, cudaDevAttrGpuOverlap},
                                {392, cudaDevAttrKernelExecTimeout},
                                {404, cudaDevAttrComputeMode},
                                {416, cudaDevAttrMaxTexture1DLinearWidth},
                                {608, cudaDevAttrMemoryClockRate},
                                {668, cudaDevAttrSingleToDoublePrecisionPerfRatio}};

void WriteProperties12(const cudaDeviceProp& properties, int device, void* to) {
  auto* const bytes = static_cast<char*>(to);
  std::memset(bytes, 0, kProperties12Bytes);
  for (size_t i = 0; i + 1 < std::size(kRuns); ++i) {
    std::memcpy(bytes + kRuns[i].to, reinterpret_cast<const char*>(&properties) + kRuns[i].from,
                kRuns[i + 1].from - kRuns[i].from);
  }
  for (const LeftOut& field : kLeftOut) {
    const int value = DeviceAttribute(field.attribute, device);
    std::memcpy(bytes + field.to, &value, sizeof(value));
  }
}

}  // namespace

extern "C" {

// `properties` has CUDA 12's structure.
cudaError_t cudaGetDeviceProperties_v2(void* properties, int device);
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                        cudaStreamCaptureStatus* status,
                                        unsigned long long* id,
                                        cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies,
                                        size_t* count);
decltype(cudaStreamGetCaptureInfo) cudaStreamGetCaptureInfo_v3;
decltype(cudaGraphNodeGetDependencies) cudaGraphNodeGetDependencies_v2;
cudaError_t cudaGetDriverEntryPoint(const char* symbol,
                                    void** function,
                                    unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status);

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (IsCuda12()) {
    Refuse("cudaGetDeviceProperties (with the structure of CUDA 11)");
    return Return(cudaErrorNotSupported);
  }
  return ReadProperties(properties, device);
}

cudaError_t cudaGetDeviceProperties_v2(void* properties, int device) {
  cudaDeviceProp newer = {};
  const cudaError_t error = ReadProperties(&newer, device);
  if (error == cudaSuccess) {
    WriteProperties12(newer, device, properties);
  }
  return error;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     cudaStreamCaptureStatus* status,
                                     unsigned long long* id,
                                     cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges,
                                     size_t* count) {
  if (IsCuda12()) {
    return cudaStreamGetCaptureInfo_v3(stream, status, id, nullptr, nullptr, nullptr, nullptr);
  }
  return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
}

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                        cudaStreamCaptureStatus* status,
                                        unsigned long long* id,
                                        cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies,
                                        size_t* count) {
  return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, nullptr, count);
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
                                         cudaGraphNode_t* dependencies,
                                         cudaGraphEdgeData* edges,
                                         size_t* count) {
  if (IsCuda12()) {
    count = reinterpret_cast<size_t*>(edges);  // its third argument
    edges = nullptr;
  }
  return cudaGraphNodeGetDependencies_v2(node, dependencies, edges, count);
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol,
                                    void** function,
                                    unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(symbol, function,
                                          static_cast<unsigned int>(CudaVersion()), flags, status);
}
}  // extern "C"
}  // namespace prism::shim
