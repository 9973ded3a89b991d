#include "graph/base/executable.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <vector>

namespace prism {
namespace {

constexpr std::string_view kStarters[] = {
    "env",  "nice",    "ionice", "chrt",   "taskset", "numactl",   "stdbuf", "setarch",
    "time", "timeout", "nohup",  "setsid", "uv",      "uvx",       "poetry", "pipenv",
    "pdm",  "hatch",   "pixi",   "conda",  "mamba",   "micromamba"};

}  // namespace

std::string FindExecutable(const std::string& name) {
  namespace fs = std::filesystem;
  std::vector<fs::path> candidates = {name};
  if (name.find('/') == std::string::npos) {
    candidates.clear();
    const char* path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      candidates.push_back(fs::path(folder) / name);
    }
  }
  for (const fs::path& candidate : candidates) {
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && access(candidate.c_str(), X_OK) == 0) {
      return fs::absolute(candidate, ignored).string();
    }
  }
  return "";
}

bool StartsAnother(std::string_view name) {
  return std::ranges::find(kStarters, name) != std::end(kStarters);
}

}  // namespace prism
