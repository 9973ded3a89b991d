#include "launch/process/install_paths.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "graph/base/executable.h"
#include "graph/base/file.h"
#include "launch/process/facades.h"
#include "launch/process/linked_libraries.h"
#include "launch/process/program_torch.h"
#include "launch/process/torch_libraries.h"

namespace prism::launch {
namespace {

// If a preloaded library were missing, the loader would only print a message, and the program would
// run on a real GPU, or on none.
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
Result<DeviceLibraries> MakeVirtualDevice(const std::vector<std::string>& files) {
  PRISM_ASSIGN_OR_RETURN(Facades facades, WriteFacades(files, ShimLibrary()));
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
  const std::filesystem::path lib = LibraryFolder();
  PRISM_RETURN_IF_ERROR(CheckPreloadable(lib));
  PRISM_RETURN_IF_ERROR(CheckBuilt(ShimLibrary()));
  InstallPaths paths;
  paths.programs = (lib / "prism" / "bin").string();
  paths.stand_in = (lib.parent_path() / "bin" / "prism-emulate").string();
  if (with_gpu) {
    PRISM_ASSIGN_OR_RETURN(paths.gpu, FindDeviceLibraries(lib, "prism-cuda"));
  }
  if (command.empty()) {
    PRISM_ASSIGN_OR_RETURN(paths.torch, FindTorch(DefaultPython()));
    PRISM_ASSIGN_OR_RETURN(const std::string folder,
                           ProvideTorchLibraries(*paths.torch, {kWorkload}));
    paths.workload = folder + "/" + kWorkload;
  } else {
    PRISM_ASSIGN_OR_RETURN(paths.torch, FindProgramTorch(command));
  }
  if (paths.torch) {
    PRISM_ASSIGN_OR_RETURN(paths.torch_libraries,
                           ProvideTorchLibraries(*paths.torch, {kObserver, kRendezvous}));
  }
  PRISM_ASSIGN_OR_RETURN(paths.virtual_device,
                         MakeVirtualDevice(LoadedFiles(paths.torch, command)));
  return paths;
}

std::vector<std::string> LoadedFiles(const std::optional<TorchInstall>& torch,
                                     const std::vector<std::string>& command) {
  std::vector<std::string> files;
  if (!torch) {
    files = {FindExecutable(command[0])};
    const Result<TorchInstall> other = AskInterpreter({DefaultPython()});
    return FindLinkedLibraries(files).users.empty() && other.ok() && !other->folder.empty()
               ? LoadedFiles(*other, command)
               : files;
  }
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(torch->folder + "/lib", ignored)) {
    if (entry.path().extension() == ".so") {
      files.push_back(entry.path().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

Status BecomeProgram(const std::string& name, const std::vector<std::string>& arguments) {
  std::string program = InstallRoot() + "/bin/" + name;
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

std::string InstallRoot() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path().string();
}

std::string LibraryFolder() {
  return InstallRoot() + "/lib";
}

std::string ShimLibrary() {
  return LibraryFolder() + "/libprism_shim.so";
}

}  // namespace prism::launch
