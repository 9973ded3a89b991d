// The files of the repository as the style test sees them.
#pragma once

#include <string>
#include <vector>

namespace prism::style {

struct SourceFile {
  std::string path;                // from the repository's root
  std::vector<std::string> lines;  // without line ends
};

// Every text file below the project's own folders and at the root, ordered by path.
std::vector<SourceFile> ReadSourceTree(const std::string& root);

bool IsCode(const SourceFile& file);  // .h .cc .cu

// The top folder of a path, or two levels for the lower parts of graph/ and the rooms of replayer/;
// "" for a root file.
std::string LayerOf(const std::string& path);

}  // namespace prism::style
