// Properties and attributes of the profile's device. Limits that all compute capabilities since 8.0
// share are from the CUDA C++ programming guide, "Technical specifications per compute capability";
// texture and surface limits from cudaDeviceProp of an H100.
#include <cstdio>
#include <cstring>

#include <cuda_runtime_api.h>

#include "graph/base/divide.h"
#include "shim/session.h"
#include "shim/virtual_device/runtime_state.h"
#include "shim/virtual_device/sm_limits.h"

namespace prism::shim {
namespace {

constexpr int kWarpThreads = 32;
constexpr int kMaxBlockThreads = 1024;
constexpr int kRegistersPerSm = 65536;
constexpr int kSharedPerBlock = 48 << 10;
constexpr int kReservedSharedPerBlock = 1 << 10;
constexpr int kMaxConstBytes = 64 << 10;

SmLimits LimitsOf(const channel::DeviceProfile& profile) {
  const SmLimits limits = SmLimitsOf(profile.compute_major, profile.compute_minor);
  if (!limits.known) {
    Count("sm_limits_assumed");
  }
  return limits;
}

bool HasClusters(const channel::DeviceProfile& profile) {
  return profile.compute_major >= 9;
}

void FillTextureLimits(cudaDeviceProp* prop) {
  prop->textureAlignment = 512;
  prop->texturePitchAlignment = 32;
  prop->surfaceAlignment = 512;
  prop->maxTexture1D = 131072;
  prop->maxTexture1DMipmap = 32768;
  prop->maxTexture2D[0] = 131072;
  prop->maxTexture2D[1] = 65536;
  prop->maxTexture2DMipmap[0] = prop->maxTexture2DMipmap[1] = 32768;
  prop->maxTexture2DLinear[0] = 131072;
  prop->maxTexture2DLinear[1] = 65000;
  prop->maxTexture2DLinear[2] = 2097120;
  prop->maxTexture2DGather[0] = prop->maxTexture2DGather[1] = 32768;
  prop->maxTextureCubemap = 32768;
  prop->maxSurface1D = 32768;
  prop->maxSurface2D[0] = 131072;
  prop->maxSurface2D[1] = 65536;
  prop->maxSurfaceCubemap = 32768;
  for (int axis = 0; axis < 3; ++axis) {
    prop->maxTexture3D[axis] = 16384;
    prop->maxSurface3D[axis] = 16384;
  }
  prop->maxTexture3DAlt[0] = prop->maxTexture3DAlt[1] = 8192;
  prop->maxTexture3DAlt[2] = 32768;
}

void FillExecutionLimits(cudaDeviceProp* prop, const channel::DeviceProfile& profile) {
  prop->warpSize = kWarpThreads;
  prop->maxThreadsPerBlock = kMaxBlockThreads;
  prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = kMaxBlockThreads;
  prop->maxThreadsDim[2] = 64;
  prop->maxGridSize[0] = 2147483647;
  prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
  const SmLimits limits = LimitsOf(profile);
  prop->maxThreadsPerMultiProcessor = limits.threads;
  prop->maxBlocksPerMultiProcessor = limits.blocks;
  prop->regsPerBlock = kRegistersPerSm;
  prop->regsPerMultiprocessor = kRegistersPerSm;
  prop->sharedMemPerBlock = kSharedPerBlock;
  prop->sharedMemPerBlockOptin = static_cast<size_t>(profile.shared_memory_per_block_optin);
  prop->sharedMemPerMultiprocessor = static_cast<size_t>(profile.shared_memory_per_sm);
  prop->reservedSharedMemPerBlock = kReservedSharedPerBlock;
  prop->multiProcessorCount = profile.sm_count;
  prop->concurrentKernels = 1;
  prop->asyncEngineCount = 3;
  prop->cooperativeLaunch = 1;
  prop->clusterLaunch = HasClusters(profile) ? 1 : 0;
  prop->streamPrioritiesSupported = 1;
  prop->computePreemptionSupported = 1;
}

void FillMemory(cudaDeviceProp* prop, const channel::DeviceProfile& profile) {
  prop->totalGlobalMem = static_cast<size_t>(profile.memory_bytes);
  prop->totalConstMem = kMaxConstBytes;
  prop->memPitch = 2147483647;
  prop->l2CacheSize = static_cast<int>(profile.l2_bytes);
  prop->persistingL2CacheMaxSize = static_cast<int>(profile.l2_bytes / 16 * 10);
  prop->accessPolicyMaxWindowSize = 128 << 20;
  prop->memoryBusWidth = 5120;
  prop->unifiedAddressing = 1;
  prop->canMapHostMemory = 1;
  prop->managedMemory = 0;  // cudaMallocManaged is refused
  prop->concurrentManagedAccess = 0;
  prop->globalL1CacheSupported = 1;
  prop->localL1CacheSupported = 1;
  prop->canUseHostPointerForRegisteredMem = 1;
  prop->hostRegisterSupported = 1;
  prop->memoryPoolsSupported = 1;
  prop->ECCEnabled = 1;
}

// Fills everything but the name, identifiers and bus numbers of the one device asked for.
cudaDeviceProp MakeProperties(int device) {
  const channel::DeviceProfile& profile = SessionConfig().device;
  cudaDeviceProp prop = {};
  snprintf(prop.name, sizeof(prop.name), "%s", profile.name);
  std::memcpy(prop.uuid.bytes, "prism-device-", 13);
  prop.uuid.bytes[15] = static_cast<char>(device);
  prop.major = profile.compute_major;
  prop.minor = profile.compute_minor;
  prop.pciBusID = 0x10 + device;
  FillExecutionLimits(&prop, profile);
  FillMemory(&prop, profile);
  FillTextureLimits(&prop);
  return prop;
}

struct PropertyAttribute {
  int attribute;
  int cudaDeviceProp::* field;
};

// Attributes that are a field of the properties.
constexpr PropertyAttribute kIntAttributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, &cudaDeviceProp::maxThreadsPerBlock},
    {cudaDevAttrWarpSize, &cudaDeviceProp::warpSize},
    {cudaDevAttrMaxRegistersPerBlock, &cudaDeviceProp::regsPerBlock},
    {cudaDevAttrMultiProcessorCount, &cudaDeviceProp::multiProcessorCount},
    {cudaDevAttrCanMapHostMemory, &cudaDeviceProp::canMapHostMemory},
    {cudaDevAttrConcurrentKernels, &cudaDeviceProp::concurrentKernels},
    {cudaDevAttrEccEnabled, &cudaDeviceProp::ECCEnabled},
    {cudaDevAttrPciBusId, &cudaDeviceProp::pciBusID},
    {cudaDevAttrGlobalMemoryBusWidth, &cudaDeviceProp::memoryBusWidth},
    {cudaDevAttrL2CacheSize, &cudaDeviceProp::l2CacheSize},
    {cudaDevAttrMaxThreadsPerMultiProcessor, &cudaDeviceProp::maxThreadsPerMultiProcessor},
    {cudaDevAttrAsyncEngineCount, &cudaDeviceProp::asyncEngineCount},
    {cudaDevAttrUnifiedAddressing, &cudaDeviceProp::unifiedAddressing},
    {cudaDevAttrComputeCapabilityMajor, &cudaDeviceProp::major},
    {cudaDevAttrComputeCapabilityMinor, &cudaDeviceProp::minor},
    {cudaDevAttrStreamPrioritiesSupported, &cudaDeviceProp::streamPrioritiesSupported},
    {cudaDevAttrGlobalL1CacheSupported, &cudaDeviceProp::globalL1CacheSupported},
    {cudaDevAttrLocalL1CacheSupported, &cudaDeviceProp::localL1CacheSupported},
    {cudaDevAttrMaxRegistersPerMultiprocessor, &cudaDeviceProp::regsPerMultiprocessor},
    {cudaDevAttrManagedMemory, &cudaDeviceProp::managedMemory},
    {cudaDevAttrConcurrentManagedAccess, &cudaDeviceProp::concurrentManagedAccess},
    {cudaDevAttrComputePreemptionSupported, &cudaDeviceProp::computePreemptionSupported},
    {cudaDevAttrCanUseHostPointerForRegisteredMem,
     &cudaDeviceProp::canUseHostPointerForRegisteredMem},
    {cudaDevAttrCooperativeLaunch, &cudaDeviceProp::cooperativeLaunch},
    {cudaDevAttrHostRegisterSupported, &cudaDeviceProp::hostRegisterSupported},
    {cudaDevAttrMaxBlocksPerMultiprocessor, &cudaDeviceProp::maxBlocksPerMultiProcessor},
    {cudaDevAttrMaxPersistingL2CacheSize, &cudaDeviceProp::persistingL2CacheMaxSize},
    {cudaDevAttrMaxAccessPolicyWindowSize, &cudaDeviceProp::accessPolicyMaxWindowSize},
    {cudaDevAttrMemoryPoolsSupported, &cudaDeviceProp::memoryPoolsSupported},
    {cudaDevAttrClusterLaunch, &cudaDeviceProp::clusterLaunch},
};

int OtherAttribute(int attribute, const cudaDeviceProp& prop) {
  switch (attribute) {
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
    case cudaDevAttrMaxBlockDimZ:
      return prop.maxThreadsDim[attribute - cudaDevAttrMaxBlockDimX];
    case cudaDevAttrMaxGridDimX:
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return prop.maxGridSize[attribute - cudaDevAttrMaxGridDimX];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(prop.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(prop.sharedMemPerBlockOptin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(prop.sharedMemPerMultiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return static_cast<int>(prop.reservedSharedMemPerBlock);
    case cudaDevAttrTotalConstantMemory:
      return static_cast<int>(prop.totalConstMem);
    case cudaDevAttrMaxPitch:
      return static_cast<int>(prop.memPitch);
    case cudaDevAttrTextureAlignment:
      return static_cast<int>(prop.textureAlignment);
    case cudaDevAttrClockRate:
      return 1'980'000;  // kHz, boost clock of the H100 datasheet; not used for timing
    case cudaDevAttrMemoryClockRate:
      return 2'619'000;  // kHz, HBM3 of the H100
    case cudaDevAttrGpuOverlap:
      return 1;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio:
      return 2;
    case cudaDevAttrMemSyncDomainCount:
      return 4;
    default:
      // Everything else is a feature that this device does not have.
      return 0;
  }
}

}  // namespace

int DeviceAttribute(int attribute, int device) {
  const cudaDeviceProp prop = MakeProperties(device);
  for (const PropertyAttribute& entry : kIntAttributes) {
    if (entry.attribute == attribute) {
      return prop.*entry.field;
    }
  }
  // Only the driver has numbers for these (CU_DEVICE_ATTRIBUTE_*):
  // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED and MULTICAST_SUPPORTED, by which torch decides whether
  // NCCL allocates memory.
  constexpr int kVirtualMemoryAttribute = 102;
  constexpr int kMulticastAttribute = 132;
  if (attribute == kMulticastAttribute) {
    return prop.major >= 9 ? 1 : 0;
  }
  return attribute == kVirtualMemoryAttribute ? 1 : OtherAttribute(attribute, prop);
}

int OccupancyBlocks(int block_threads, size_t shared_bytes) {
  const channel::DeviceProfile& profile = SessionConfig().device;
  if (block_threads <= 0 || block_threads > kMaxBlockThreads ||
      shared_bytes > static_cast<size_t>(profile.shared_memory_per_block_optin)) {
    return 0;
  }
  const int rounded = RoundUp(block_threads, kWarpThreads);
  const SmLimits limits = LimitsOf(profile);
  const int by_threads = limits.threads / rounded;
  const int by_shared =
      static_cast<int>(static_cast<size_t>(profile.shared_memory_per_sm) /
                       (shared_bytes + static_cast<size_t>(kReservedSharedPerBlock)));
  const int least = by_threads < by_shared ? by_threads : by_shared;
  return least < limits.blocks ? least : limits.blocks;
}

namespace {

bool IsDevice(int device) {
  return device >= 0 && device < SessionConfig().device.device_count;
}

}  // namespace

cudaError_t ReadProperties(cudaDeviceProp* properties, int device) {
  if (!IsDevice(device)) {
    return Return(cudaErrorInvalidDevice);
  }
  *properties = MakeProperties(device);
  return cudaSuccess;
}

extern "C" {

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!IsDevice(device)) {
    return Return(cudaErrorInvalidDevice);
  }
  *value = DeviceAttribute(attribute, device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!IsDevice(device) || length < 13) {
    return Return(cudaErrorInvalidValue);
  }
  snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0", 0x10 + device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  unsigned int bus = 0;
  if (sscanf(text, "%*x:%x:", &bus) != 1 || !IsDevice(static_cast<int>(bus) - 0x10)) {
    return Return(cudaErrorInvalidValue);
  }
  *device = static_cast<int>(bus) - 0x10;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  // Defaults of the real runtime.
  *value = limit == cudaLimitStackSize        ? 1024
           : limit == cudaLimitPrintfFifoSize ? size_t{1} << 20
           : limit == cudaLimitMallocHeapSize ? size_t{8} << 20
                                              : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  if (!IsDevice(device) || !IsDevice(peer)) {
    return Return(cudaErrorInvalidDevice);
  }
  *can_access = device == peer ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int /*flags*/) {
  return IsDevice(peer) ? cudaSuccess : Return(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return IsDevice(peer) ? cudaSuccess : Return(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetP2PAttribute(int* value,
                                      cudaDeviceP2PAttr attribute,
                                      int source,
                                      int target) {
  if (!IsDevice(source) || !IsDevice(target)) {
    return Return(cudaErrorInvalidDevice);
  }
  *value = attribute == cudaDevP2PAttrPerformanceRank || source == target ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* /*wanted*/) {
  *device = 0;
  return cudaSuccess;
}
}  // extern "C"
}  // namespace prism::shim
