#include "tests/style/source_tree.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

namespace prism::style {

namespace {

constexpr std::array kFolders = {"graph",  "slicer",      "replayer", "shim",
                                 "launch", "experiments", "tests",    ".ci"};
constexpr std::array kTextEndings = {".h",   ".cc",    ".cu",   ".md", ".proto", ".sh",
                                     ".txt", ".cmake", ".toml", ".py", ".map",   ".json"};

SourceFile ReadLines(const std::filesystem::path& path, const std::string& name) {
  SourceFile file{name, {}};
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    file.lines.push_back(line);
  }
  return file;
}

bool IsText(const std::filesystem::path& path) {
  return std::ranges::find(kTextEndings, path.extension().string()) != kTextEndings.end();
}

}  // namespace

std::vector<SourceFile> ReadSourceTree(const std::string& root) {
  std::vector<SourceFile> files;
  const std::filesystem::path base(root);
  for (const auto& entry : std::filesystem::directory_iterator(base)) {
    if (entry.is_regular_file() && IsText(entry.path())) {
      files.push_back(ReadLines(entry.path(), entry.path().filename().string()));
    }
  }
  for (const char* folder : kFolders) {
    if (!std::filesystem::exists(base / folder)) {
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(base / folder)) {
      if (entry.is_regular_file() && IsText(entry.path())) {
        files.push_back(ReadLines(entry.path(), entry.path().lexically_relative(base).string()));
      }
    }
  }
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

bool IsCode(const SourceFile& file) {
  return file.path.ends_with(".h") || file.path.ends_with(".cc") || file.path.ends_with(".cu");
}

std::string LayerOf(const std::string& path) {
  const size_t slash = path.find('/');
  if (slash == std::string::npos) {
    return "";
  }
  for (const char* const lower :
       {"graph/base", "graph/job", "graph/program", "experiments/published"}) {
    if (path.starts_with(std::string(lower) + "/")) {
      return lower;
    }
  }
  return path.substr(0, path.starts_with("replayer/") ? path.rfind('/') : slash);
}

}  // namespace prism::style
