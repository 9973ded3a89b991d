// Kernel registration and launch. Tens of thousands of kernels are registered while libtorch loads
// and some hundreds are launched: registration only appends, names are demangled at first launch.
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include "shim/clock/host_meter.h"
#include "shim/session.h"
#include "shim/virtual_device/device_memory.h"
#include "shim/virtual_device/fat_binary.h"
#include "shim/virtual_device/issue.h"
#include "shim/virtual_device/nvcc_calls.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

using channel::Record;
using channel::RecordKind;

struct Kernel {
  const char* mangled_name = nullptr;  // in the program's image, or ours for driver kernels
  const void* binary = nullptr;        // in which it is registered; null for driver kernels
  uint32_t name = 0;                   // id in kKernelName; 0 before the first launch
};

struct Variable {
  size_t bytes = 0;
  void* address = nullptr;  // given at first use
};

struct Kernels {
  std::mutex mutex;
  std::vector<std::pair<const void*, Kernel>> registered;  // not yet in the map
  std::unordered_map<const void*, Kernel> by_function;
  std::unordered_map<const void*, Variable> variables;
};

Kernels& Get() {
  alignas(Kernels) static std::byte storage[sizeof(Kernels)];
  static Kernels* const kernels = new (storage) Kernels();
  return *kernels;
}

uint32_t DefineName(const char* mangled_name) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(mangled_name, nullptr, nullptr, &status);
  const uint32_t id =
      DefineOnce(channel::Table::kKernelName, demangled != nullptr ? demangled : mangled_name);
  std::free(demangled);
  return id;
}

// Null if nothing was registered at that address. `kernels.mutex` is held.
Kernel* FindKernel(Kernels& kernels, const void* function) {
  auto found = kernels.by_function.find(function);
  if (found == kernels.by_function.end() && !kernels.registered.empty()) {
    for (const auto& [stub, kernel] : kernels.registered) {
      kernels.by_function[stub] = kernel;
    }
    kernels.registered.clear();
    found = kernels.by_function.find(function);
  }
  return found == kernels.by_function.end() ? nullptr : &found->second;
}

// 0 if nothing was registered at that address.
uint32_t KernelName(const void* function) {
  Kernels& kernels = Get();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  Kernel* const kernel = FindKernel(kernels, function);
  if (kernel == nullptr) {
    return 0;
  }
  if (kernel->name == 0) {
    kernel->name = DefineName(kernel->mangled_name);
  }
  return kernel->name;
}

// Architecture of the code that the profile's device runs.
int KernelArchitecture(const void* function) {
  const auto& profile = SessionConfig().device;
  Kernels& kernels = Get();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  const Kernel* const kernel = FindKernel(kernels, function);
  return ArchitectureOf(kernel != nullptr ? kernel->binary : nullptr,
                        profile.compute_major * 10 + profile.compute_minor);
}

// Shapes pushed by <<<>>> and popped by the stub that it calls.
constexpr int kMaxPushed = 8;
thread_local LaunchShape pushed[kMaxPushed];
thread_local int pushed_count = 0;

bool ShapeIsPossible(const LaunchShape& shape) {
  const auto threads = uint64_t{shape.block.x} * shape.block.y * shape.block.z;
  return threads > 0 && threads <= 1024 && shape.grid.x > 0 && shape.grid.y > 0 &&
         shape.grid.z > 0 && shape.grid.y <= 65535 && shape.grid.z <= 65535 &&
         shape.shared_bytes <=
             static_cast<size_t>(SessionConfig().device.shared_memory_per_block_optin);
}

}  // namespace

cudaError_t Launch(const void* function, const LaunchShape& shape) {
  const InShim inside;
  EnsureContext();
  if (!ShapeIsPossible(shape)) {
    return Return(cudaErrorInvalidConfiguration);
  }
  const uint32_t name = KernelName(function);
  if (name == 0) {
    return Return(cudaErrorInvalidDeviceFunction);
  }
  Record record = {};
  record.kind = RecordKind::kKernel;
  record.kernel = {name,
                   {shape.grid.x, shape.grid.y, shape.grid.z},
                   {shape.block.x, shape.block.y, shape.block.z},
                   static_cast<uint32_t>(shape.shared_bytes)};
  IssueOp(shape.stream, record);
  return cudaSuccess;
}

const void* DefineDriverKernel(const char* mangled_name) {
  char* const kept = strdup(mangled_name);
  Kernels& kernels = Get();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  kernels.by_function[kept] = {kept};
  return kept;
}

extern "C" {

void** __cudaRegisterFatBinary(void* binary) {
  return static_cast<void**>(binary);
}

void __cudaRegisterFatBinaryEnd(void** /*handle*/) {
}

void __cudaUnregisterFatBinary(void** /*handle*/) {
}

char __cudaInitModule(void** /*handle*/) {
  return 1;
}

void __cudaRegisterFunction(void** handle,
                            const char* host_stub,
                            char* /*device_function*/,
                            const char* device_name,
                            int /*thread_limit*/,
                            uint3* /*thread*/,
                            uint3* /*block*/,
                            dim3* /*block_dim*/,
                            dim3* /*grid_dim*/,
                            int* /*warp_size*/) {
  Kernels& kernels = Get();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  kernels.registered.emplace_back(host_stub, Kernel{device_name, handle});
}

void __cudaRegisterVar(void** /*handle*/,
                       char* host_variable,
                       char* /*device_address*/,
                       const char* /*device_name*/,
                       int /*is_extern*/,
                       size_t bytes,
                       int /*is_constant*/,
                       int /*is_global*/) {
  Kernels& kernels = Get();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  kernels.variables[host_variable] = {bytes, nullptr};
}

unsigned __cudaPushCallConfiguration(dim3 grid,
                                     dim3 block,
                                     size_t shared_bytes,
                                     struct CUstream_st* stream) {
  if (pushed_count == kMaxPushed) {
    return 1;
  }
  pushed[pushed_count++] = {grid, block, shared_bytes, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid,
                                       dim3* block,
                                       size_t* shared_bytes,
                                       void* stream) {
  if (pushed_count == 0) {
    return Return(cudaErrorInvalidConfiguration);
  }
  const LaunchShape& shape = pushed[--pushed_count];
  *grid = shape.grid;
  *block = shape.block;
  *shared_bytes = shape.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = shape.stream;
  return cudaSuccess;
}

// A kernel handle is the address of its host stub.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_stub) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host_stub));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel,
                               dim3 grid,
                               dim3 block,
                               void** /*arguments*/,
                               size_t shared_bytes,
                               cudaStream_t stream) {
  return Launch(kernel, {grid, block, shared_bytes, stream});
}

cudaError_t cudaLaunchKernel(const void* function,
                             dim3 grid,
                             dim3 block,
                             void** /*arguments*/,
                             size_t shared_bytes,
                             cudaStream_t stream) {
  return Launch(function, {grid, block, shared_bytes, stream});
}

cudaError_t cudaLaunchCooperativeKernel(const void* function,
                                        dim3 grid,
                                        dim3 block,
                                        void** /*arguments*/,
                                        size_t shared_bytes,
                                        cudaStream_t stream) {
  return Launch(function, {grid, block, shared_bytes, stream});
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config,
                                const void* function,
                                void** /*arguments*/) {
  return Launch(function,
                {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream});
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  // The attributes of a small kernel: enough registers for full occupancy, no static shared memory.
  // Kernels size their grids by these; none of them may be zero. CUB refuses to launch on an
  // architecture that it was not compiled for.
  const auto& profile = SessionConfig().device;
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->ptxVersion = KernelArchitecture(function);
  attributes->binaryVersion = attributes->ptxVersion;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(profile.shared_memory_per_block_optin);
  attributes->preferredShmemCarveout = -1;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* /*function*/, cudaFuncAttribute attribute, int value) {
  const bool too_much = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
                        value > SessionConfig().device.shared_memory_per_block_optin;
  return too_much ? Return(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* /*function*/,
                                                                   int block_threads,
                                                                   size_t shared_bytes,
                                                                   unsigned int /*flags*/) {
  *blocks = OccupancyBlocks(block_threads, shared_bytes);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          const void* function,
                                                          int block_threads,
                                                          size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_threads,
                                                                shared_bytes, 0);
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters,
                                           const void* /*function*/,
                                           const cudaLaunchConfig_t* config) {
  const dim3 block = config->blockDim;
  const int per_sm =
      OccupancyBlocks(static_cast<int>(block.x * block.y * block.z), config->dynamicSmemBytes);
  // Clusters of the portable maximum of eight blocks.
  *clusters = per_sm * SessionConfig().device.sm_count / 8;
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* cluster_blocks,
                                                 const void* /*function*/,
                                                 const cudaLaunchConfig_t* /*config*/) {
  *cluster_blocks = 8;
  return cudaSuccess;
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  Kernels& kernels = Get();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  const auto found = kernels.variables.find(symbol);
  if (found == kernels.variables.end()) {
    return Return(cudaErrorInvalidSymbol);
  }
  if (found->second.address == nullptr) {
    found->second.address = ModuleMemory(found->second.bytes);
  }
  *address = found->second.address;
  return cudaSuccess;
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  Kernels& kernels = Get();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  const auto found = kernels.variables.find(symbol);
  if (found == kernels.variables.end()) {
    return Return(cudaErrorInvalidSymbol);
  }
  *bytes = found->second.bytes;
  return cudaSuccess;
}
}  // extern "C"
}  // namespace prism::shim
