// The GPUs of this machine, as the driver tells: asked before a run that wants one begins.
#pragma once

#include <string>

#include "graph/base/status.h"

namespace prism::launch {

struct Gpu {
  int count = 0;
  std::string name;      // of the first
  int cuda_version = 0;  // that the driver has, as CUDA numbers them: 13000
  std::string driver;    // path of the library that was asked
  bool is_test = false;  // PRISM_TEST_DEVICE: a device that tests bring, and no GPU
};

// Opens the driver by its soname, or the library of PRISM_TEST_DEVICE, and asks it. kEnvironment,
// in one line, where there is no driver, or one without a device.
Result<Gpu> FindGpu();

}  // namespace prism::launch
