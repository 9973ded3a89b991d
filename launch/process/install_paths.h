// Where our own programs and libraries are, relative to the running program's path.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

// The libraries that make a program see one kind of device.
struct DeviceLibraries {
  std::string preload;   // value of LD_PRELOAD
  std::string folder;    // of the replacement libraries, under the real names
  int cuda_version = 0;  // of the program's libraries; 0: unknown
  int nccl_version = 0;
  std::shared_ptr<const void> keeper;  // of what exists for this run only
};

// What a sandbox process needs.
struct InstallPaths {
  std::string workload;  // bin/prism-workload
  std::string programs;  // folder of those that stand in for the system's (nvidia-smi)
  DeviceLibraries virtual_device;
  DeviceLibraries gpu;  // empty unless asked for
};

// For a program's command, or the built-in one if it is empty. kEnvironment, saying what to build,
// when something is missing.
Result<InstallPaths> FindInstallPaths(const std::vector<std::string>& command, bool with_gpu);

// The path of the library that is preloaded.
std::string ShimLibrary();

// Replaces this process by another of our programs, which then has its standard streams, signals
// and exit code. Returns only if it could not be started: kEnvironment.
Status BecomeProgram(const std::string& name, const std::vector<std::string>& arguments);

// The interpreter whose torch is used where a command does not say which.
std::string DefaultPython();

// lib/ beside the bin/ of the running program.
std::string LibraryFolder();

}  // namespace prism::launch
