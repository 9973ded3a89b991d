// Where our own programs and libraries lie, seen from the running program's path.
#pragma once

#include <string>

#include "graph/base/status.h"

namespace prism::launch {

// What a sandbox process needs.
struct InstallPaths {
  std::string workload;      // bin/prism-workload
  std::string preload;       // value of LD_PRELOAD
  std::string library_path;  // folder of the stand-ins under their real names
};

// kEnvironment, saying what to build, when something is missing.
Result<InstallPaths> FindInstallPaths();

// lib/ beside the bin/ of the running program.
std::string LibraryFolder();

}  // namespace prism::launch
