// Writes the stand-ins of NVIDIA's libraries (launch/process/facades.h) for tests that start
// programs themselves: write_facades LIB FILE... fills LIB/prism for what loads the files, and
// lists in LIB/prism/preload.txt what goes into LD_PRELOAD, relative to LIB.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "launch/process/facades.h"

int main(int count, char** arguments) {
  const std::filesystem::path lib = arguments[1];
  setenv("XDG_CACHE_HOME", (lib / "prism").c_str(), 1);
  const auto facades = prism::launch::WriteFacades({arguments + 2, arguments + count},
                                                   (lib / "libprism_shim.so").string());
  if (!facades.ok()) {
    std::fprintf(stderr, "%s\n", facades.status().message().c_str());
    return 1;
  }
  std::string preload = "libprism_shim.so";
  for (const std::string& path : facades->paths) {
    const std::string name = std::filesystem::path(path).filename().string();
    std::filesystem::rename(path, lib / "prism" / name);
    preload += ":prism/" + name;
  }
  std::filesystem::remove_all(facades->folder);
  std::ofstream(lib / "prism/preload.txt") << preload << '\n';
  return 0;
}
