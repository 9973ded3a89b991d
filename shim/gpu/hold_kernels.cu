// The kernels of holds, one per kind of collective, so that profilers show what a stream waits for.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "shim/gpu/hold_logic.h"

namespace {

struct Gpu {
  // volatile: uncached; the fence orders what the host observes.
  __device__ uint64_t Load(const uint64_t* address) {
    return *const_cast<const volatile uint64_t*>(address);
  }
  __device__ void Store(uint64_t* address, uint64_t value) {
    __threadfence_system();
    *const_cast<volatile uint64_t*>(address) = value;
  }
  __device__ void Fence() { __threadfence_system(); }
  __device__ uint64_t Add(uint64_t* address, uint64_t value) {
    return atomicAdd(reinterpret_cast<unsigned long long*>(address),
                     static_cast<unsigned long long>(value));
  }
  __device__ uint64_t Now() {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
  }
  __device__ void Nap() { __nanosleep(100); }
};

constexpr uint32_t kWarp = 32;

// By all warps but the first, until it says that the hold is over.
__device__ void Move(const prism::shim::HoldTraffic& traffic,
                     const prism::shim::HoldStream* state,
                     uint64_t sequence,
                     const volatile bool* over) {
  Gpu gpu;
  while (!*over && gpu.Load(&state->release) != sequence + 1) {
    gpu.Nap();
  }
  const uint64_t count = traffic.bytes / sizeof(uint4) / 2;
  const auto* const source = reinterpret_cast<const uint4*>(traffic.buffer);
  auto* const target = reinterpret_cast<uint4*>(traffic.buffer) + count;
  const uint64_t movers = blockDim.x - kWarp;
  const uint64_t begin = gpu.Now();
  uint64_t copied = 0;
  for (uint64_t at = blockIdx.x * movers + threadIdx.x - kWarp; !*over; at += gridDim.x * movers) {
    if (prism::shim::IsAhead(traffic, copied, gpu.Now() - begin)) {
      at -= gridDim.x * movers;
      continue;
    }
    target[at % count] = __ldcg(&source[at % count]);
    copied += movers * sizeof(uint4);
  }
}

__device__ void Hold(prism::shim::HoldBoard* board,
                     prism::shim::HoldStream* streams,
                     uint32_t hold_stream,
                     const prism::shim::HoldTraffic& traffic) {
  __shared__ volatile bool over;
  Gpu gpu;
  const prism::shim::HoldStream* const state = &streams[hold_stream % prism::shim::kHoldStreams];
  const uint64_t sequence = gpu.Load(&state->finished);
  if (threadIdx.x == 0) {
    over = false;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    prism::shim::HoldBlock(gpu, board, streams, hold_stream, gridDim.x);
    over = true;
  } else if (threadIdx.x >= kWarp && traffic.bytes_per_us != 0) {
    Move(traffic, state, sequence, &over);
  }
  __syncthreads();  // warps that do not move wait in hardware and keep their places
}

}  // namespace

#define PRISM_HOLD(kind)                                                                 \
  extern "C" __global__ void __launch_bounds__(prism::shim::kHoldThreads, 1)             \
      prism_hold_##kind(prism::shim::HoldBoard* board, prism::shim::HoldStream* streams, \
                        uint32_t hold_stream, prism::shim::HoldTraffic traffic) {        \
    Hold(board, streams, hold_stream, traffic);                                          \
  }

PRISM_HOLD(allreduce)
PRISM_HOLD(allgather)
PRISM_HOLD(reducescatter)
PRISM_HOLD(broadcast)
PRISM_HOLD(reduce)
PRISM_HOLD(alltoall)
PRISM_HOLD(gather)
PRISM_HOLD(scatter)
PRISM_HOLD(sendrecv)

namespace {

template <typename Element>
__device__ void Scale(void* data, uint64_t count, double factor) {
  auto* const elements = static_cast<Element*>(data);
  const uint64_t step = uint64_t{blockDim.x} * gridDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    elements[i] =
        static_cast<Element>(static_cast<float>(elements[i]) * static_cast<float>(factor));
  }
}

template <>
__device__ void Scale<double>(void* data, uint64_t count, double factor) {
  auto* const elements = static_cast<double*>(data);
  const uint64_t step = uint64_t{blockDim.x} * gridDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    elements[i] *= factor;
  }
}

}  // namespace

// Computes, from one rank's values, the sum over ranks with equal values; for the floating-point
// types, by their numbers in nccl.h.
extern "C" __global__ void prism_scale(void* data,
                                       uint64_t count,
                                       uint32_t element,
                                       double factor) {
  switch (element) {
    case 6:
      return Scale<__half>(data, count, factor);
    case 7:
      return Scale<float>(data, count, factor);
    case 8:
      return Scale<double>(data, count, factor);
    case 9:
      return Scale<__nv_bfloat16>(data, count, factor);
  }
}

// Writes the global timer: for reading both clocks at one moment, and for its step.
extern "C" __global__ void prism_read_timer(uint64_t* times, uint32_t count) {
  Gpu gpu;
  for (uint32_t i = 0; i < count; ++i) {
    times[i] = gpu.Now();
  }
}
