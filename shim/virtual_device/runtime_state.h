// What the files of the CUDA runtime share: the error of a thread, the objects behind handles.
#pragma once

#include <atomic>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace prism::shim {

// Keeps the error for cudaGetLastError and returns it; success does not clear the kept one.
cudaError_t Return(cudaError_t error);

// The device current on this thread.
int CurrentDevice();

struct StreamObject {
  uint16_t index;
  int priority;
  unsigned int flags;
  int device;
};

// The object of a stream handle; nullptr for the default streams.
const StreamObject* FindStream(cudaStream_t stream);

struct EventObject {
  uint32_t id;
  unsigned int flags;
  std::atomic<bool> recorded;
  std::atomic<unsigned long long> capture;   // in which it was last recorded; 0: none
  std::atomic<uint64_t> recorded_after = 0;  // op issued last (launch_queue.h)
};

// A dense id for an event that a graph records (graph.cc).
uint32_t NewEventId();

// Waits for a stream, in virtual time if there is one.
void SynchronizeStream(cudaStream_t stream);

// Passes a kernel launch on to the session. `function` is a host stub, a cudaKernel_t or
// CUfunction.
struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  cudaStream_t stream;
};
cudaError_t Launch(const void* function, const LaunchShape& shape);

// Registers a kernel of a driver module; returns the handle for launching it.
const void* DefineDriverKernel(const char* mangled_name);

// Blocks of a kernel that fit on one multiprocessor of the profile.
int OccupancyBlocks(int block_threads, size_t shared_bytes);

// Copies and records them; `async` as cudaMemcpyAsync, otherwise the host waits where CUDA does.
cudaError_t Copy(void* target, const void* source, size_t bytes, cudaStream_t stream, bool async);
cudaError_t Set(void* target, int value, size_t bytes, cudaStream_t stream);
cudaError_t SetWords(void* target, uint32_t value, size_t count, cudaStream_t stream);

// What cudaGetDeviceProperties gives, in CUDA 13's structure.
cudaError_t ReadProperties(cudaDeviceProp* properties, int device);

// An attribute of the profile's device by cudaDeviceAttr number (CUdevice_attribute has the same
// numbers).
int DeviceAttribute(int attribute, int device);

// The shim's function of that name; nullptr when it has none.
void* FindOwnFunction(const char* name);

// The shim's function for a driver API name and the version of the API that is asked for, as
// cuGetProcAddress takes them; nullptr when unknown.
void* FindDriverFunction(const char* name, int version);

}  // namespace prism::shim
