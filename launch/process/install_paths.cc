#include "launch/process/install_paths.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "launch/process/facades.h"
#include "launch/process/program_files.h"

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

// What stands in for the libraries of the program's CUDA.
Result<DeviceLibraries> MakeVirtualDevice(const std::vector<std::string>& command) {
  PRISM_RETURN_IF_ERROR(CheckBuilt(ShimLibrary()));
  PRISM_ASSIGN_OR_RETURN(Facades facades,
                         WriteFacades(LoadedFiles(command, DefaultPython()), ShimLibrary()));
  DeviceLibraries libraries = {.preload = ShimLibrary(),
                               .folder = facades.folder,
                               .cuda_version = facades.cuda_version,
                               .nccl_version = facades.nccl_version,
                               .keeper = facades.keeper};
  for (const std::string& path : facades.paths) {
    libraries.preload += ":" + path;
  }
  return libraries;
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

Result<InstallPaths> FindInstallPaths(const std::vector<std::string>& command, bool with_gpu) {
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
  paths.programs = (lib / "prism" / "bin").string();
  PRISM_ASSIGN_OR_RETURN(
      paths.virtual_device,
      MakeVirtualDevice(command.empty() ? std::vector<std::string>{paths.workload} : command));
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

std::string ShimLibrary() {
  return LibraryFolder() + "/libprism_shim.so";
}

std::string DefaultPython() {
  if (const char* const chosen = std::getenv("PRISM_PYTHON"); chosen != nullptr) {
    return chosen;
  }
  const std::filesystem::path own = InstallRoot().parent_path() / ".venv/bin/python";
  std::error_code ignored;
  return std::filesystem::exists(own, ignored) ? own.string() : "python3";
}

}  // namespace prism::launch
