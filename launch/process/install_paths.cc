#include "launch/process/install_paths.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "graph/base/file.h"

namespace prism::launch {
namespace {

std::filesystem::path InstallRoot() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path();
}

// If a preloaded library were missing, the loader would only print a message, and the program would
// run on a real GPU, or on none; without the observer, groups have no members.
Status CheckBuilt(const std::filesystem::path& library) {
  std::error_code ignored;
  if (std::filesystem::exists(library, ignored)) {
    return OkStatus();
  }
  return EnvironmentLacks(
      fmt::format("{} is missing; run ./run.sh, which builds it", library.string()));
}

// A path with a space or a colon cannot be in LD_PRELOAD, which the loader splits at both.
Status CheckPreloadable(const std::filesystem::path& lib) {
  if (lib.string().find_first_of(" :") == std::string::npos) {
    return OkStatus();
  }
  return EnvironmentLacks(
      fmt::format("\"{}\" has a space or a colon, so LD_PRELOAD cannot load a library from it; "
                  "build or install Prism under a path without them",
                  lib.string()));
}

// A file in the folder lists what is preloaded, by path relative to lib/.
Result<DeviceLibraries> FindDeviceLibraries(const std::filesystem::path& lib, const char* folder) {
  DeviceLibraries libraries;
  libraries.folder = (lib / folder).string();
  const std::string list_path = libraries.folder + "/preload.txt";
  const Result<std::string> list = ReadFile(list_path);
  if (!list.ok()) {
    return EnvironmentLacks(fmt::format("{} is missing; run ./run.sh, which builds it", list_path));
  }
  std::string names = *list;
  std::replace(names.begin(), names.end(), ':', ' ');
  std::istringstream stream(names);
  for (std::string name; stream >> name;) {
    if (!libraries.preload.empty()) {
      libraries.preload += ':';
    }
    libraries.preload += (lib / name).string();
    PRISM_RETURN_IF_ERROR(CheckBuilt(lib / name));
  }
  return libraries;
}

}  // namespace

Result<InstallPaths> FindInstallPaths(bool with_gpu) {
  const std::filesystem::path root = InstallRoot();
  const std::filesystem::path lib = root / "lib";
  PRISM_RETURN_IF_ERROR(CheckPreloadable(lib));
  InstallPaths paths;
  paths.workload = (root / "bin" / "prism-workload").string();
  std::error_code ignored;
  if (!std::filesystem::exists(paths.workload, ignored)) {
    return EnvironmentLacks(fmt::format(
        "{} is missing; run ./run.sh, which installs torch and builds it", paths.workload));
  }
  PRISM_ASSIGN_OR_RETURN(paths.virtual_device, FindDeviceLibraries(lib, "prism"));
  if (with_gpu) {
    PRISM_ASSIGN_OR_RETURN(paths.gpu, FindDeviceLibraries(lib, "prism-cuda"));
  }
  PRISM_RETURN_IF_ERROR(CheckBuilt(lib / "libprism_observer.so"));
  PRISM_RETURN_IF_ERROR(CheckBuilt(lib / "libprism_rendezvous.so"));
  return paths;
}

Status BecomeProgram(const std::string& name, const std::vector<std::string>& arguments) {
  std::string program = (InstallRoot() / "bin" / name).string();
  std::vector<std::string> words = arguments;
  std::vector<char*> pointers = {program.data()};
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  return EnvironmentLacks(fmt::format("cannot start {}: {}; run ./run.sh, which builds it", program,
                                      std::strerror(errno)));
}

std::string LibraryFolder() {
  return (InstallRoot() / "lib").string();
}

}  // namespace prism::launch
