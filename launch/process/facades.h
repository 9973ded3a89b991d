// The stand-ins for the NVIDIA libraries that a program links: for each its own name and versions,
// nothing in it but functions that go on in libprism_shim.so, so that NVIDIA's library is never
// mapped and a program that opens it by name finds ours behind it. Written when they are first
// needed, from the symbol tables of the libraries that the program would have loaded; kept in the
// user's cache, or where that cannot be written in a folder of this run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

struct Facades {
  std::string folder;
  std::vector<std::string> paths;  // in the order in which they are preloaded
  int cuda_version = 0;            // as the program's libraries report them; 0: unknown
  int nccl_version = 0;
  std::shared_ptr<const void> keeper;  // removes a folder of this run
};

// For a program that loads `files` and what they need. `shim`: the path of libprism_shim.so.
Result<Facades> WriteFacades(const std::vector<std::string>& files, const std::string& shim);

// One exported name of a replaced library.
struct SurfaceName {
  std::string library;
  std::string name;
  bool is_implemented = false;  // else refused
};

// All of them, sorted.
Result<std::vector<SurfaceName>> DeviceSurface(const std::vector<std::string>& files,
                                               const std::string& shim);

// Where files are kept that are made once for a user: "" if there is no such place, or none that
// LD_PRELOAD can name.
std::string CacheFolder();

}  // namespace prism::launch
