// Where our own programs and libraries are, relative to the running program's path.
#pragma once

#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

// The libraries that make a program see one kind of device.
struct DeviceLibraries {
  std::string preload;  // value of LD_PRELOAD
  std::string folder;   // of the replacement libraries, under the real names
};

// What a sandbox process needs.
struct InstallPaths {
  std::string workload;  // bin/prism-workload
  DeviceLibraries virtual_device;
  DeviceLibraries gpu;  // empty unless asked for
};

// kEnvironment, saying what to build, when something is missing.
Result<InstallPaths> FindInstallPaths(bool with_gpu);

// Replaces this process by another of our programs, which then has its standard streams, signals
// and exit code. Returns only if it could not be started: kEnvironment.
Status BecomeProgram(const std::string& name, const std::vector<std::string>& arguments);

// lib/ beside the bin/ of the running program.
std::string LibraryFolder();

}  // namespace prism::launch
