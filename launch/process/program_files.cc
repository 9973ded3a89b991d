#include "launch/process/program_files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/base/split.h"
#include "launch/process/linked_libraries.h"

namespace prism::launch {
namespace {

namespace fs = std::filesystem;

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return name;
  }
  const char* const path = std::getenv("PATH");
  for (const std::string_view folder : SplitAt(path == nullptr ? "" : path, ':')) {
    const std::string program = std::string(folder) + "/" + name;
    if (access(program.c_str(), X_OK) == 0) {
      return program;
    }
  }
  return "";
}

// The interpreter in a script's first line; "" without one.
std::string InterpreterOf(const std::string& script) {
  std::ifstream file(script);
  std::string line;
  if (!std::getline(file, line) || !line.starts_with("#!")) {
    return "";
  }
  std::istringstream words(line.substr(2));
  std::string word;
  words >> word;
  if (word.ends_with("/env")) {
    words >> word;
    return FindProgram(word);
  }
  return word;
}

bool IsPython(const std::string& program) {
  return fs::path(program).filename().string().starts_with("python");
}

// The folders of an interpreter's packages, a virtual environment's before those of its base.
std::vector<std::string> LibrariesOfTorch(const std::string& python) {
  std::error_code ignored;
  std::vector<fs::path> roots;
  for (const fs::path& program : {fs::path(python), fs::canonical(python, ignored)}) {
    const fs::path libraries = program.parent_path().parent_path() / "lib";
    for (const auto& entry : fs::directory_iterator(libraries, ignored)) {
      roots.push_back(entry.path() / "site-packages");
      roots.push_back(entry.path() / "dist-packages");
    }
  }
  std::vector<std::string> files;
  for (const fs::path& root : roots) {
    for (const auto& entry : fs::directory_iterator(root / "torch" / "lib", ignored)) {
      if (entry.path().extension() == ".so") {
        files.push_back(entry.path().string());
      }
    }
    if (!files.empty()) {
      break;
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> LoadedFiles(const std::vector<std::string>& command,
                                     const std::string& python) {
  std::string program = FindProgram(command[0]);
  if (const std::string interpreter = InterpreterOf(program); !interpreter.empty()) {
    program = interpreter;
  }
  if (IsPython(program)) {
    return LibrariesOfTorch(program);
  }
  const bool links_them = !FindLinkedLibraries({program}).users.empty();
  return links_them ? std::vector<std::string>{program} : LibrariesOfTorch(FindProgram(python));
}

}  // namespace prism::launch
