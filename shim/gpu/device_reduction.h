// Reductions of the exchange on the GPU that the present ranks share: chunks of all members are
// copied to the device, a kernel combines them (reduction_logic.h), the result is copied back. Runs
// on a separate stream, while holds occupy those of the program.
#pragma once

#include <cstddef>

#include "shim/nccl/reduction.h"

namespace prism::shim {

// The CPU finishes smaller ones before the first copy would have begun.
inline constexpr size_t kDeviceReductionBytesMin = size_t{16} << 10;

// As CombineContributions, from host memory into host memory. False if the device refuses; nothing
// is written then. Thread-safe.
bool ReduceOnDevice(
    const ReductionInput& input, Element element, Reduction reduction, size_t count, void* out);

}  // namespace prism::shim
