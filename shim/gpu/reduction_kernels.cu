// Reductions among ranks that are present, on their GPU. Compiled without fused multiply-add, which
// would round once where the CPU rounds twice.
#include "shim/gpu/reduction_logic.h"

extern "C" __global__ void prism_reduce(prism::shim::ReductionTask task) {
  const uint64_t step = uint64_t{blockDim.x} * gridDim.x;
  prism::shim::RunReduction(task, uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, step);
}
