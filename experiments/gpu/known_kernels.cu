// A kernel of known occupancy: so many blocks, one an SM, copy memory for so long as they are told.
// What stands in for NCCL's kernel where there is one GPU only.
#include <cstdint>

constexpr int kThreads = 640;  // of NCCL's kernels

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    prism_known_copy(const uint4* source, uint4* target, uint64_t count, uint64_t duration_ns) {
  uint64_t begin;
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  uint64_t at = blockIdx.x * kThreads + threadIdx.x;
  do {
    target[at % count] = source[at % count];
    at += static_cast<uint64_t>(gridDim.x) * kThreads;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < duration_ns);
}

extern "C" __global__ void prism_timer_steps(uint64_t* times, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(times[i]));
  }
}
