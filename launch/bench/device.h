// `prism bench device`: the time that the shim adds to a kernel launch, without libtorch. The
// library is loaded into a child of this process; the parent is the worker that drains the channel.
#pragma once

#include <string>

#include "graph/base/status.h"

namespace prism::launch {

// Mean cost of one cudaLaunchKernel over 32 kernels in turn, nanoseconds of the machine's clock.
struct LaunchCost {
  double standalone_ns;  // no worker: nothing is recorded
  double record_ns;      // every launch becomes a record that this process takes out of the ring
  int launches;          // of each measurement
};

// `shim_path` is libprism_shim.so. Fails with kEnvironment when it cannot be loaded.
Result<LaunchCost> MeasureLaunchCost(const std::string& shim_path);

}  // namespace prism::launch
