// The GPUs of this machine according to the driver: checked before a run that needs one begins.
#pragma once

#include <string>
#include <string_view>

#include "graph/base/status.h"

namespace prism::launch {

struct Gpu {
  int count = 0;
  std::string name;      // of the first
  int cuda_version = 0;  // that the driver supports, as CUDA numbers it: 13000
  std::string driver;    // path of the driver library
  bool is_test = false;  // PRISM_TEST_DEVICE: a device that tests provide, not a GPU
};

// Opens the driver by its soname, or the library of PRISM_TEST_DEVICE, and queries it.
// kEnvironment, in one line about the option, if there is no driver, or no device.
Result<Gpu> FindGpu(std::string_view option);

}  // namespace prism::launch
