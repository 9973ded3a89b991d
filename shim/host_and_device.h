// For headers whose functions are compiled for both the GPU and the CPU.
#pragma once

#ifdef __CUDACC__
#define PRISM_HOST_AND_DEVICE __host__ __device__
#else
#define PRISM_HOST_AND_DEVICE
#endif
