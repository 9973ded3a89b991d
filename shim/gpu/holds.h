// The holds of this process on its GPU: hold_device.h with the threads that serve it.
//
// A hold may carry values: a function that computes them while the stream is held. One thread runs
// these functions in the order of the calls, each when its hold has begun, and no hold ends before
// its values are ready. Streams can reach the holds in that order, since a stream waits for nothing
// that is issued later; and members of a communicator agree on the order, as on a real NCCL.
#pragma once

#include <cstdint>
#include <functional>

#include <cuda.h>

namespace prism::shim {

using HoldValues = std::function<void()>;  // may be empty

// A hold on a stream, as the collective's kernel with that many blocks. False when the driver
// refuses.
struct HoldLaunch {
  const char* kernel;
  uint32_t hold_stream;
  uint32_t blocks;
  CUstream stream;
  uint64_t bytes_per_us;  // that each block moves
};
bool LaunchHold(const HoldLaunch& launch, HoldValues values);

// The same on a stream under capture, and for each launch of its graph.
bool CaptureHold(const HoldLaunch& launch);
void CountHoldLaunch(uint32_t hold_stream, HoldValues values);

// hold_device.h: Scale.
bool ScaleOnDevice(void* data, uint64_t count, uint32_t element, double factor, CUstream stream);

}  // namespace prism::shim
