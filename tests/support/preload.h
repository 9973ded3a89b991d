// What a program under the shim preloads.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

#include "graph/base/split.h"

namespace prism::testing {

// LD_PRELOAD as the build lists it in `libraries`/`folder`/preload.txt ("prism", or "prism-cuda" on
// a real GPU); `libraries` is the build's library folder.
inline std::string PreloadOf(const std::string& libraries, const std::string& folder = "prism") {
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
