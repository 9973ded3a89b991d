#include "launch/emulate/sandbox/torch_version.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

namespace prism::launch {
namespace {

// The path of a mapped file with that name; empty if there is none.
std::filesystem::path MappedFile(pid_t process, const std::string& name) {
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  std::string line;
  while (std::getline(maps, line)) {
    const size_t begin = line.find('/');
    if (begin != line.npos && line.ends_with("/" + name)) {
      return line.substr(begin);
    }
  }
  return {};
}

}  // namespace

std::string TorchVersionOf(pid_t process) {
  const std::filesystem::path library = MappedFile(process, "libtorch_cpu.so");
  const std::string begin = "__version__ = '";
  std::ifstream file(library.parent_path().parent_path() / "version.py");
  std::string line;
  while (!library.empty() && std::getline(file, line)) {
    if (line.starts_with(begin)) {
      return line.substr(begin.size(), line.find('\'', begin.size()) - begin.size());
    }
  }
  return "";
}

}  // namespace prism::launch
