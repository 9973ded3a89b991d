// Where our own programs and libraries are, relative to the running program's path.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/status.h"
#include "launch/process/torch_install.h"

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
  std::optional<TorchInstall> torch;  // the program's
  std::string torch_libraries;        // folder of the libraries for it; "" without one
  std::string workload;               // the built-in program for it; "" for a user's
  std::string programs;               // folder of those that stand in for the system's (nvidia-smi)
  std::string stand_in;               // stands in for launchers (launch/cli/stand_in.h)
  DeviceLibraries virtual_device;
  DeviceLibraries gpu;  // empty unless asked for
};

// For a user's command, or the built-in program if it is empty. What its torch needs may be built
// (launch/process/torch_libraries.h). kEnvironment, saying what to install or build, when something
// is missing.
Result<InstallPaths> FindInstallPaths(const std::vector<std::string>& command, bool with_gpu);

// The path of the library that is preloaded.
std::string ShimLibrary();

// The files of a command whose NVIDIA libraries are replaced: those of its torch; without one the
// program itself, if it links any, else those of the torch of DefaultPython.
std::vector<std::string> LoadedFiles(const std::optional<TorchInstall>& torch,
                                     const std::vector<std::string>& command);

// Replaces this process by another of our programs, which then has its standard streams, signals
// and exit code. Returns only if it could not be started: kEnvironment.
Status BecomeProgram(const std::string& name, const std::vector<std::string>& arguments);

// The folder with the bin/ of the running program, and the lib/ beside it.
std::string InstallRoot();
std::string LibraryFolder();

}  // namespace prism::launch
