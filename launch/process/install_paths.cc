#include "launch/process/install_paths.h"

#include <algorithm>
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

// Of a library that is preloaded the loader would only say that it is missing, and the program run
// on a real GPU, or on none; without the observer groups have no members.
Status CheckBuilt(const std::filesystem::path& library) {
  std::error_code ignored;
  if (std::filesystem::exists(library, ignored)) {
    return OkStatus();
  }
  return EnvironmentLacks(fmt::format(
      "{} is missing: the shim is not built; run ./run.sh, which builds it", library.string()));
}

}  // namespace

Result<InstallPaths> FindInstallPaths() {
  namespace fs = std::filesystem;
  const fs::path root = InstallRoot();
  InstallPaths paths;
  paths.workload = (root / "bin" / "prism-workload").string();
  paths.library_path = (root / "lib" / "prism").string();
  std::error_code ignored;
  if (!fs::exists(paths.workload, ignored)) {
    return EnvironmentLacks(
        fmt::format("{} is missing: it needs the libtorch of the torch wheel; "
                    "run ./run.sh, which installs and builds it",
                    paths.workload));
  }
  const Result<std::string> list = ReadFile(paths.library_path + "/preload.txt");
  if (!list.ok()) {
    return EnvironmentLacks(
        fmt::format("{}/preload.txt is missing: the shim is not built; run "
                    "./run.sh, which builds it",
                    paths.library_path));
  }
  std::string names = *list;
  std::replace(names.begin(), names.end(), ':', ' ');
  std::istringstream stream(names);
  for (std::string name; stream >> name;) {
    if (!paths.preload.empty()) {
      paths.preload += ':';
    }
    paths.preload += (root / "lib" / name).string();
    PRISM_RETURN_IF_ERROR(CheckBuilt(root / "lib" / name));
  }
  PRISM_RETURN_IF_ERROR(CheckBuilt(root / "lib" / "libprism_observer.so"));
  PRISM_RETURN_IF_ERROR(CheckBuilt(root / "lib" / "libprism_rendezvous.so"));
  return paths;
}

std::string LibraryFolder() {
  return (InstallRoot() / "lib").string();
}

}  // namespace prism::launch
