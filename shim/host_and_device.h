// For headers whose functions run on the GPU and, the same text, on the CPU.
#pragma once

#ifdef __CUDACC__
#define PRISM_HOST_AND_DEVICE __host__ __device__
#else
#define PRISM_HOST_AND_DEVICE
#endif
