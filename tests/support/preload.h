// What a program under the shim preloads.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "graph/base/split.h"

namespace prism::testing {

// Programs that this process starts find what the build has made for its torch.
inline void OfferTorchLibraries(const std::string& libraries) {
  for (const auto& entry : std::filesystem::directory_iterator(libraries)) {
    if (entry.path().filename().string().starts_with("torch-")) {
      setenv("PRISM_TORCH_LIBRARIES", entry.path().c_str(), 1);
    }
  }
}

// LD_PRELOAD as the build lists it in `libraries`/`folder`/preload.txt ("prism", or "prism-cuda" on
// a real GPU); `libraries` is the build's library folder.
inline std::string PreloadOf(const std::string& libraries, const std::string& folder = "prism") {
  OfferTorchLibraries(libraries);
  std::ifstream file(libraries + "/" + folder + "/preload.txt");
  std::string list;
  std::getline(file, list);
  std::string all;
  for (const std::string_view name : SplitAt(list, ':')) {
    all.append(all.empty() ? "" : ":").append(libraries).append("/").append(name);
  }
  return all;
}

}  // namespace prism::testing
