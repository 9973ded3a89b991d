// The GPUs of this machine, as the driver tells: asked before a run that wants one begins.
#pragma once

#include <string>

#include "graph/base/status.h"

namespace prism::launch {

struct Gpu {
  int count = 0;
  std::string name;  // of the first
};

// Opens the driver by its soname and asks it. kEnvironment, in one line, where there is no
// driver, or one without a device.
Result<Gpu> FindGpu(const std::string& driver = "libcuda.so.1");

}  // namespace prism::launch
