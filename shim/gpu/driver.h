// The few calls of the CUDA driver that holds need, found by name at run time: nothing here links a
// CUDA library.
#pragma once

#include <cuda.h>

namespace prism::shim {

struct Driver {
  decltype(&::cuInit) init = nullptr;
  decltype(&::cuModuleLoadData) load_module = nullptr;
  decltype(&::cuModuleGetFunction) get_function = nullptr;
  decltype(&::cuLaunchKernel) launch = nullptr;
  decltype(&::cuMemHostAlloc) allocate_host = nullptr;
  decltype(&::cuMemHostGetDevicePointer) device_pointer = nullptr;
  decltype(&::cuMemAlloc) allocate = nullptr;
  decltype(&::cuMemsetD8) set = nullptr;
  decltype(&::cuStreamWriteValue64) write_value = nullptr;
  decltype(&::cuStreamWaitValue64) wait_value = nullptr;
  decltype(&::cuLaunchHostFunc) launch_host = nullptr;
};

// Opens the library and fills the table. Returns what is missing: the name of the first function
// that the library lacks, or the library's own name if it cannot be opened; nullptr when nothing is
// missing.
const char* LoadDriver(const char* library, Driver* driver);

}  // namespace prism::shim
