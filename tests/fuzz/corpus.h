// The files of a fuzz corpus, for the tests that replay it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace prism::testing {

// Paths of all files in the folder, sorted.
inline std::vector<std::string> CorpusFiles(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace prism::testing
