// What nvcc puts into a program: one piece of code for each architecture that it compiled kernels
// for.
#pragma once

namespace prism::shim {

// The architecture (10 × major + minor) of the code that a device of architecture `device` runs:
// the latest that is not later than the device. The earliest if all are later, so that programs run
// on profiles of GPUs that their libraries have dropped. `device` if `wrapper`, which
// __cudaRegisterFatBinary is given, is null or in no known format.
int ArchitectureOf(const void* wrapper, int device);

}  // namespace prism::shim
