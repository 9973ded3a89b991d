// The part of NVML with which programs query the devices of their node: how many there are, which
// is which, how full they are. Queries of how they are connected are refused by name: the profile
// does not say, and those that ask (symmetric memory, which maps the memory of peers) find no peers
// here. So are sensors (temperature, power, clocks), since nothing here has them; a GPU counts as
// fully loaded, which is an assumption.
#include "shim/virtual_device/nvml.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <cuda_runtime_api.h>

#include "shim/session.h"
#include "shim/spawned_process.h"
#include "shim/virtual_device/memory.h"

namespace prism::shim {
namespace {

constexpr const char kDevices[256] = {};

// The first driver for CUDA 13.0 (the toolkit's release notes).
constexpr const char* kDriver = "580.65.06";

nvmlReturn_t WriteText(const char* text, char* out, unsigned int length) {
  return snprintf(out, length, "%s", text) < static_cast<int>(length)
             ? NVML_SUCCESS
             : NVML_ERROR_INSUFFICIENT_SIZE;
}

int OrdinalOf(nvmlDevice_t device) {
  return static_cast<int>(device - kDevices);
}

int DeviceCount() {
  return SessionConfig().device.device_count;
}

nvmlReturn_t Give(int ordinal, nvmlDevice_t* device) {
  if (ordinal < 0 || ordinal >= DeviceCount() || ordinal >= static_cast<int>(sizeof(kDevices))) {
    return NVML_ERROR_NOT_FOUND;
  }
  *device = kDevices + ordinal;
  return NVML_SUCCESS;
}

nvmlReturn_t Refused(const char* name) {
  Refuse(name);
  return NVML_ERROR_NOT_SUPPORTED;
}

constexpr unsigned int kUuidLength = 41;  // with the NUL

void WriteUuid(int ordinal, char (&text)[kUuidLength]) {
  cudaDeviceProp prop = {};
  cudaGetDeviceProperties(&prop, ordinal);
  char* at = text + snprintf(text, kUuidLength, "GPU-");
  for (int byte = 0; byte < 16; ++byte) {
    const bool dash = byte == 4 || byte == 6 || byte == 8 || byte == 10;
    at += snprintf(at, 4, "%s%02x", dash ? "-" : "", prop.uuid.bytes[byte] & 0xFF);
  }
}

}  // namespace

extern "C" {

// What has nothing to do, and what refuses by name: whatever the arguments are.
#define PRISM_DONE(name) \
  nvmlReturn_t name() {  \
    return NVML_SUCCESS; \
  }
#define PRISM_REFUSED(name) \
  nvmlReturn_t name() {     \
    return Refused(#name);  \
  }
PRISM_DONE(nvmlInit_v2)
PRISM_DONE(nvmlInit)
PRISM_DONE(nvmlInitWithFlags)
PRISM_DONE(nvmlShutdown)
PRISM_DONE(nvmlDeviceSetCpuAffinity)
PRISM_DONE(nvmlDeviceClearCpuAffinity)
PRISM_REFUSED(nvmlDeviceGetNvLinkRemoteDeviceType)
PRISM_REFUSED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
PRISM_REFUSED(nvmlDeviceGetTemperature)
PRISM_REFUSED(nvmlDeviceGetTemperatureV)
PRISM_REFUSED(nvmlDeviceGetPowerUsage)
PRISM_REFUSED(nvmlDeviceGetEnforcedPowerLimit)
PRISM_REFUSED(nvmlDeviceGetTotalEnergyConsumption)
PRISM_REFUSED(nvmlDeviceGetClockInfo)
PRISM_REFUSED(nvmlDeviceGetMaxClockInfo)
PRISM_REFUSED(nvmlDeviceGetNvLinkState)
#undef PRISM_DONE
#undef PRISM_REFUSED

const char* nvmlErrorString(nvmlReturn_t code) {
  return code == NVML_SUCCESS ? "Success" : "not supported by the virtual device";
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return cudaDriverGetVersion(version) == cudaSuccess ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return WriteText(kDriver, version, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char* version, unsigned int length) {
  char text[32];
  snprintf(text, sizeof(text), "13.%s", kDriver);
  return WriteText(text, version, length);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  SpawnOnlyOwnProcess();
  *count = static_cast<unsigned int>(DeviceCount());
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  return Give(static_cast<int>(index), device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  int ordinal = -1;
  return cudaDeviceGetByPCIBusId(&ordinal, bus_id) == cudaSuccess ? Give(ordinal, device)
                                                                  : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device) {
  for (int ordinal = 0; ordinal < DeviceCount(); ++ordinal) {
    char own[kUuidLength];
    WriteUuid(ordinal, own);
    if (std::strcmp(own, uuid) == 0) {
      return Give(ordinal, device);
    }
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  if (length < kUuidLength) {
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  char own[kUuidLength];
  WriteUuid(OrdinalOf(device), own);
  std::memcpy(uuid, own, kUuidLength);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int* index) {
  *index = static_cast<unsigned int>(OrdinalOf(device));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t /*device*/, char* name, unsigned int length) {
  return WriteText(SessionConfig().device.name, name, length);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor) {
  cudaDeviceProp prop = {};
  if (cudaGetDeviceProperties(&prop, OrdinalOf(device)) != cudaSuccess) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *major = prop.major;
  *minor = prop.minor;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* info) {
  cudaDeviceProp prop = {};
  if (cudaGetDeviceProperties(&prop, OrdinalOf(device)) != cudaSuccess) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  *info = {};
  info->domain = static_cast<unsigned int>(prop.pciDomainID);
  info->bus = static_cast<unsigned int>(prop.pciBusID);
  info->device = static_cast<unsigned int>(prop.pciDeviceID);
  snprintf(info->busIdLegacy, sizeof(info->busIdLegacy), "%04X:%02X:%02X.0", info->domain & 0xFFFF,
           info->bus & 0xFF, info->device & 0xFF);
  snprintf(info->busId, sizeof(info->busId), "%08X:%02X:%02X.0", info->domain, info->bus & 0xFF,
           info->device & 0xFF);
  return NVML_SUCCESS;
}

// The process knows only its own device; the others are equally full, by symmetry.
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t /*device*/, nvmlMemory_t* memory) {
  const DeviceUsage usage = QueryDeviceUsage();
  memory->total = static_cast<unsigned long long>(usage.total_bytes);
  memory->free = static_cast<unsigned long long>(usage.free_bytes);
  memory->used = memory->total - memory->free;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory) {
  nvmlMemory_t plain = {};
  nvmlDeviceGetMemoryInfo(device, &plain);
  memory->total = plain.total;
  memory->reserved = 0;
  memory->free = plain.free;
  memory->used = plain.used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device,
                                                  unsigned int* count,
                                                  nvmlProcessInfo_v1_t* processes) {
  const unsigned int room = *count;
  *count = 1;
  if (room == 0) {
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  nvmlMemory_t memory = {};
  nvmlDeviceGetMemoryInfo(device, &memory);
  processes[0] = {static_cast<unsigned int>(getpid()), memory.used};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device,
                                                     unsigned int* count,
                                                     nvmlProcessInfo_v2_t* processes) {
  nvmlProcessInfo_v1_t own = {};
  const nvmlReturn_t code = nvmlDeviceGetComputeRunningProcesses(device, count, &own);
  if (code == NVML_SUCCESS) {
    constexpr unsigned int kNoInstance = 0xFFFFFFFF;
    processes[0] = {own.pid, own.usedGpuMemory, kNoInstance, kNoInstance};
  }
  return code;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device,
                                                     unsigned int* count,
                                                     nvmlProcessInfo_v2_t* processes) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, int /*which*/, int* status) {
  int can_access = 0;
  cudaDeviceCanAccessPeer(&can_access, OrdinalOf(a), OrdinalOf(b));
  *status = can_access != 0 ? 0 : 5;  // NVML_P2P_STATUS_OK, NVML_P2P_STATUS_NOT_SUPPORTED
  return NVML_SUCCESS;
}

// No fabric beyond the node (all zeros: NVML_GPU_FABRIC_STATE_NOT_SUPPORTED), in agreement with the
// driver's attribute for fabric handles. The leading version field holds the size of the requested
// struct.
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t /*device*/, unsigned int* info) {
  constexpr unsigned int kSizeMask = 0xFFFFFF;
  const unsigned int bytes = *info & kSizeMask;
  if (bytes < sizeof(*info)) {
    return NVML_ERROR_INVALID_ARGUMENT;
  }
  std::memset(info + 1, 0, bytes - sizeof(*info));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t /*device*/, nvmlUtilization_t* rates) {
  Count("gpu_load_assumed");
  *rates = {100, 100};
  return NVML_SUCCESS;
}

// The CPUs near the device, those of the target's node, are not here: the process's own stand for
// them, and the process stays on these.
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t /*device*/,
                                      unsigned int words,
                                      unsigned long* set) {
  cpu_set_t own;
  CPU_ZERO(&own);
  sched_getaffinity(0, sizeof(own), &own);
  std::memset(set, 0, words * sizeof(*set));
  std::memcpy(set, &own, std::min(words * sizeof(*set), sizeof(own)));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device,
                                                 unsigned int words,
                                                 unsigned long* set,
                                                 int /*scope*/) {
  return nvmlDeviceGetCpuAffinity(device, words, set);
}
}  // extern "C"
}  // namespace prism::shim
