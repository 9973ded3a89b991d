// Our libraries and the built-in program for one torch: those that need libtorch's headers. Ready
// ones are in lib/torch-<minor>-cu<CUDA's major>[-oldabi]; for a torch that none fits (another
// minor version, a nightly, a vendor's build) they are built once, from the headers inside of it,
// and kept in the user's cache under its version and a hash of those headers and of our sources.
#pragma once

#include <string>
#include <vector>

#include "launch/process/torch_install.h"

namespace prism::launch {

inline constexpr const char* kObserver = "libprism_observer.so";
inline constexpr const char* kRendezvous = "libprism_rendezvous.so";
inline constexpr const char* kWorkload = "prism-workload";

// "torch-2.11-cu13".
std::string ReadyName(const TorchInstall& torch);

// "torch-2.8.0+cu128-0123456789abcdef"; kEnvironment if our sources are not installed.
Result<std::string> CacheName(const TorchInstall& torch);

struct TorchLibraries {
  std::string folder;
  bool is_ready = false;  // came with Prism
  bool is_there = false;  // else it would have to be built
};

// Where files of these names are, or would be; nothing is built. kEnvironment if neither can be.
Result<TorchLibraries> LocateTorchLibraries(const TorchInstall& torch,
                                            const std::vector<std::string>& names);

// The folder that has them. Builds them if need be, and says so in a line on standard error; of
// processes that want the same, one builds and the others wait. kEnvironment without a C++ compiler
// or headers, naming the package that brings them.
Result<std::string> ProvideTorchLibraries(const TorchInstall& torch,
                                          const std::vector<std::string>& names);

// The command of a C++ compiler; "" if there is none.
std::string FindCompiler();

// What --version prints: version, commit, and the releases of torch that there are ready ones for.
std::string VersionText(const std::string& program);

}  // namespace prism::launch
